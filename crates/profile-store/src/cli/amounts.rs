//! Numbers for people: CPU time in seconds, shares in percent.

/// A value in its unit; nanoseconds as seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "it is shown with three digits behind the point"
)]
pub(super) fn shown(value: i128, unit: &str) -> String {
    match unit {
        "nanoseconds" => seconds(value as f64 / 1e9),
        "" => grouped(&value.to_string()),
        unit => format!("{} {unit}", grouped(&value.to_string())),
    }
}

/// Seconds, with commas between thousands.
pub(super) fn seconds(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    format!("{}.{rest} s", grouped(whole))
}

/// A share of a whole; of nothing it is nothing.
#[expect(
    clippy::cast_precision_loss,
    reason = "it is shown with one digit behind the point"
)]
pub(super) fn percent(part: i128, whole: i128) -> String {
    let share = if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    };
    share_in_percent(share)
}

pub(super) fn share_in_percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A line that says how much is not listed; none if nothing is.
pub(super) fn and_more(count: u64, what: &str) -> String {
    if count == 0 {
        return String::new();
    }
    format!("and {count} more{what}\n")
}

fn grouped(digits: &str) -> String {
    let count = digits.len();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        let is_inside = place > 0 && !text.ends_with('-');
        if is_inside && (count - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_with_commas_and_units() {
        assert_eq!(shown(1_234_567_890_000, "nanoseconds"), "1,234.568 s");
        assert_eq!(shown(12_345, "bytes"), "12,345 bytes");
        assert_eq!(shown(-123, ""), "-123");
        assert_eq!(percent(1, 8), "12.5 %");
        assert_eq!(percent(0, 0), "0.0 %");
    }
}
