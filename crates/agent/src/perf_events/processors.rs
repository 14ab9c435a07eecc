//! Which processors there are: not all numbers up to the highest, since some can be switched off.

use std::ops::RangeInclusive;

/// Processors that are believed to be there: the most that Linux can be built for.
const PROCESSORS_MAX: usize = 8192;

/// The numbers of the processors that run now.
///
/// # Errors
/// If the kernel does not say.
pub fn online_processors() -> std::io::Result<Vec<u32>> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    Ok(parsed(list.trim()))
}

/// A list like `0-3,5`.
fn parsed(list: &str) -> Vec<u32> {
    let range = |text: &str| -> Option<RangeInclusive<u32>> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let all = list.split(',').filter_map(range).flatten();
    all.take(PROCESSORS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_numbers_and_ranges() {
        assert_eq!(parsed("0"), [0]);
        assert_eq!(parsed("0-2,5,7-8"), [0, 1, 2, 5, 7, 8]);
        assert!(parsed("").is_empty());
        assert_eq!(parsed("3-1,x,4"), [4]);
        assert_eq!(parsed("0-4294967295").len(), PROCESSORS_MAX);
    }

    #[test]
    fn this_host_has_a_processor() {
        assert!(!online_processors().unwrap().is_empty());
    }
}
