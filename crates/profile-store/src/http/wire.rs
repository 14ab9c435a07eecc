//! The few protobuf messages that are answered: what OTLP's export says, and `google.rpc.Status`.
//!
//! Field numbers: opentelemetry-proto's `profiles_service.proto`, googleapis' `rpc/status.proto` and `rpc/error_details.proto`.

use std::time::Duration;

use http::HeaderValue;

/// The media type of OTLP as protobuf.
pub(super) const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
/// The media type of OTLP as JSON.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
const VARINT: u64 = 0;
const LENGTH: u64 = 2;

/// `ExportProfilesServiceResponse`: empty, or with a `partial_success` of rejected profiles and why.
pub(super) fn export_response(rejected: Option<(u64, &str)>) -> Vec<u8> {
    let mut response = Vec::new();
    if let Some((profiles, why)) = rejected {
        let mut partial = Vec::new();
        number(&mut partial, 1, profiles);
        bytes(&mut partial, 2, why.as_bytes());
        bytes(&mut response, 1, &partial);
    }
    response
}

/// `google.rpc.Status`, with a `RetryInfo` where it helps to come again.
pub(super) fn status(code: i32, message: &str, wait: Option<Duration>) -> Vec<u8> {
    let mut status = Vec::new();
    number(&mut status, 1, u64::try_from(code).unwrap_or_default());
    bytes(&mut status, 2, message.as_bytes());
    if let Some(wait) = wait {
        let (mut delay, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
        number(&mut delay, 1, wait.as_secs());
        bytes(&mut info, 1, &delay);
        bytes(&mut any, 1, RETRY_INFO.as_bytes());
        bytes(&mut any, 2, &info);
        bytes(&mut status, 3, &any);
    }
    status
}

fn number(into: &mut Vec<u8>, field: u64, value: u64) {
    varint(into, field << 3 | VARINT);
    varint(into, value);
}

fn bytes(into: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(into, field << 3 | LENGTH);
    varint(into, value.len() as u64);
    into.extend_from_slice(value);
}

fn varint(into: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            into.push(low & 0x7f);
            return;
        }
        into.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_their_specifications_say() {
        assert_eq!(export_response(None), b"");
        let rejected = export_response(Some((300, "old")));
        assert_eq!(rejected, b"\x0a\x08\x08\xac\x02\x12\x03old");
        let status = status(14, "no", Some(Duration::from_secs(5)));
        let any = [
            b"\x0a\x28".as_slice(),
            RETRY_INFO.as_bytes(),
            b"\x12\x04\x0a\x02\x08\x05",
        ];
        let expected = [b"\x08\x0e\x12\x02no\x1a\x30".as_slice(), &any.concat()].concat();
        assert_eq!(status, expected);
    }
}
