//! What the worst messages cost in memory, as multiples of their length. A process of its own: others would be counted, too.

#![cfg(test)]

use std::env;
use std::fs;
use std::hint::black_box;
use std::process::Command;

use unhex_pprof::{DecodeError, Limits, otlp, pprof};

/// Elements that cost two bytes of a message.
const MESSAGE_BYTES: usize = 2 << 20;

/// The most memory for one byte of a message of empty elements. Real messages need two or three; these are as
/// dear as it gets, and `Limits` ends them at some hundred megabytes.
const FACTOR_MAX: usize = 60;

fn status_bytes(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect("a line");
    let kib = line
        .trim_start_matches(':')
        .trim()
        .trim_end_matches("kB")
        .trim();
    kib.parse::<usize>().expect("a number") << 10
}

/// The most memory that was resident during `read`, beyond what was before.
fn most_bytes(read: impl FnOnce()) -> usize {
    // Resets the highest mark, proc(5).
    fs::write("/proc/self/clear_refs", "5").expect("Linux");
    let before = status_bytes("VmRSS");
    read();
    status_bytes("VmHWM").saturating_sub(before)
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}

/// `inner` within fields of these numbers, the outermost first.
fn within(fields: &[u8], inner: Vec<u8>) -> Vec<u8> {
    fields.iter().rev().fold(inner, |inner, field| {
        [vec![field << 3 | 2], varint(inner.len()), inner].concat()
    })
}

/// Many empty messages of one field number.
fn empties(field: u8) -> Vec<u8> {
    [field << 3 | 2, 0].repeat(MESSAGE_BYTES / 2)
}

/// Packed numbers of a byte each.
fn ones() -> Vec<u8> {
    vec![1; MESSAGE_BYTES]
}

/// What a message is read as.
#[derive(Clone, Copy, Debug)]
enum Format {
    Pprof,
    Otlp,
    Json,
}

/// Messages in which everything is one element, as often as it goes.
fn shapes() -> Vec<(String, Format, Vec<u8>)> {
    let mut all = Vec::new();
    for field in 1..=7 {
        all.push((
            format!("pprof field {field}"),
            Format::Pprof,
            empties(field),
        ));
        let dictionary = within(&[2], empties(field));
        all.push((
            format!("dictionary field {field}"),
            Format::Otlp,
            dictionary,
        ));
    }
    let objects = "{},".repeat(MESSAGE_BYTES / 3);
    let json = format!("{{\"dictionary\":{{\"locationTable\":[{objects}{{}}]}}}}");
    let others = [
        ("pprof lines", Format::Pprof, within(&[4], empties(4))),
        ("pprof labels", Format::Pprof, within(&[2], empties(3))),
        ("pprof values", Format::Pprof, within(&[2, 2], ones())),
        ("pprof comments", Format::Pprof, within(&[13], ones())),
        ("OTLP lines", Format::Otlp, within(&[2, 2], empties(3))),
        (
            "OTLP attributes of a location",
            Format::Otlp,
            within(&[2, 2, 4], ones()),
        ),
        ("OTLP frames", Format::Otlp, within(&[2, 7, 1], ones())),
        ("OTLP resources", Format::Otlp, within(&[1, 1], empties(1))),
        ("OTLP profiles", Format::Otlp, within(&[1, 2], empties(2))),
        ("OTLP samples", Format::Otlp, within(&[1, 2, 2], empties(2))),
        (
            "OTLP values",
            Format::Otlp,
            within(&[1, 2, 2, 2, 4], ones()),
        ),
        ("JSON locations", Format::Json, json.into_bytes()),
    ];
    all.extend(others.map(|(name, format, bytes)| (name.to_owned(), format, bytes)));
    all
}

fn read(format: Format, message: &[u8]) -> Result<(), DecodeError> {
    let limits = Limits::default();
    let model = match format {
        Format::Pprof => pprof::decode(message, &limits)?,
        Format::Otlp => otlp::decode(message, &limits)?.profiles,
        Format::Json => {
            let message = otlp::json_to_protobuf(message, &limits)?;
            return read(Format::Otlp, &message);
        }
    };
    drop(black_box(model));
    Ok(())
}

/// Set for a process that is to read one shape: memory that was freed before would not be counted.
const SHAPE: &str = "UNHEX_TEST_SHAPE";

#[test]
fn memory_is_a_multiple_of_the_message() {
    let shapes = shapes();
    if let Ok(place) = env::var(SHAPE) {
        let (name, format, message) = &shapes[place.parse::<usize>().expect("a number")];
        let mut end = Ok(());
        let most = most_bytes(|| end = read(*format, message));
        let factor = most / message.len();
        println!("{name}: {factor} times, {end:?}");
        assert!(
            factor <= FACTOR_MAX,
            "{name}: {most} bytes for {}",
            message.len()
        );
        return;
    }
    for place in 0..shapes.len() {
        let mut child = Command::new(env::current_exe().expect("this program"));
        let output = child
            .arg("--nocapture")
            .env(SHAPE, place.to_string())
            .output();
        let output = output.expect("this program again");
        let words = String::from_utf8_lossy(&output.stdout);
        print!(
            "{}",
            words
                .lines()
                .filter(|line| line.contains(" times, "))
                .collect::<String>()
                + "\n"
        );
        assert!(
            output.status.success(),
            "{words}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
