//! What `POST /symbolize` takes.
//!
//! Unknown fields are refused, so that a misspelt option is never silently ignored.

use serde::{Deserialize, Deserializer, Serialize};
use unhex_build_id::IdKind;
use utoipa::ToSchema;

use super::{Address, Unsigned64};
use crate::absent;

/// A batch of addresses of several modules. Everything but `modules[].build_id` and
/// `modules[].addresses` is optional.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SymbolizeRequest {
    /// Whose profile this is; counted in the metrics of missing symbols.
    #[serde(
        default,
        deserialize_with = "absent::or_default",
        skip_serializing_if = "Labels::is_empty"
    )]
    pub labels: Labels,
    /// Parts with one `profile_id` count as one profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<String>,
    /// Whether this counts as a profile that arrived; `false` for re-symbolizing what was stored.
    #[serde(default = "yes", deserialize_with = "absent::or_yes")]
    pub observe: bool,
    /// The modules; one may appear several times, the answers keep the order.
    pub modules: Vec<Module>,
    /// How much of a demangled name is wanted.
    #[serde(default, deserialize_with = "absent::or_default")]
    pub demangle: Demangle,
    /// Whether inlined calls are wanted. Without them an address has at most one frame: the
    /// function that was really called, with file and line of the address itself, as
    /// `llvm-symbolizer --no-inlines` prints it.
    #[serde(default = "yes", deserialize_with = "absent::or_yes")]
    pub inlines: bool,
    /// How long to wait for symbols that are being converted, in seconds; at most 60 are waited.
    #[serde(
        default = "wait_seconds_default",
        deserialize_with = "wait_seconds_or_default"
    )]
    pub wait_seconds: u32,
}

fn yes() -> bool {
    true
}

fn wait_seconds_default() -> u32 {
    5
}

fn wait_seconds_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(wait_seconds_default))
}

impl Default for SymbolizeRequest {
    fn default() -> Self {
        Self {
            labels: Labels::default(),
            profile_id: None,
            observe: true,
            modules: Vec::new(),
            demangle: Demangle::default(),
            inlines: true,
            wait_seconds: wait_seconds_default(),
        }
    }
}

/// Whose profile this is. What is missing reads `unlabelled` in the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// The service, such as `checkout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Its version, such as `2.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where it runs, such as `prod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
}

impl Labels {
    /// Whether no label is there.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One binary and the addresses that were seen in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// The identity of the binary; what it is, `id_kind` says.
    pub build_id: String,
    /// The kind of identity: `gnu`, `go`, `htlhash`, `pdb` or `macho`.
    #[serde(default, deserialize_with = "absent::or_default")]
    #[schema(value_type = String, default = "gnu")]
    pub id_kind: IdKind,
    /// Its file name; only for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the addresses count from.
    #[serde(default, deserialize_with = "absent::or_default")]
    pub address_kind: AddressKind,
    /// Whether the addresses are return addresses, to be looked up at their call.
    #[serde(default, deserialize_with = "absent::or_default")]
    pub adjust: Adjust,
    /// The addresses: hex strings or integers up to 2^64-1.
    pub addresses: Vec<Address>,
    /// How often each address was seen, as long as `addresses`; 1 each when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Vec<u64>>,
    /// How the process mapped the file; needed when `address_kind` is `process`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Mapping>,
    /// The PT_LOAD program headers of the executable, for addresses other than `link` of a build
    /// ID whose executable is not in the store. What the store has goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<Vec<Segment>>,
}

/// What addresses count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AddressKind {
    /// As linked: the `p_vaddr` space that addr2line takes.
    #[default]
    Link,
    /// Offsets into the file that was mapped.
    FileOffset,
    /// Offsets from the image base: the lowest `p_vaddr` of a PT_LOAD, rounded down to its page.
    Relative,
    /// Addresses of a process; needs `mapping`.
    Process,
}

/// What an address needs before it is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Adjust {
    /// Nothing: instruction pointers, or return addresses that were adjusted already.
    #[default]
    None,
    /// They are return addresses: one byte back, into the call.
    CallSite,
}

/// How a process mapped a file, as in a line of `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    /// First address.
    pub start: Unsigned64,
    /// One past the last address.
    pub end: Unsigned64,
    /// Offset of `start` in the file.
    pub file_offset: Unsigned64,
}

/// One PT_LOAD program header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// `p_vaddr`.
    pub address: Unsigned64,
    /// `p_offset`.
    pub file_offset: Unsigned64,
    /// `p_filesz`.
    pub file_size_bytes: Unsigned64,
    /// `p_memsz`; the same as `file_size_bytes` when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_size_bytes: Option<Unsigned64>,
    /// `p_align`; 4096 when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<Unsigned64>,
    /// Whether `p_flags` has PF_X.
    #[serde(default, deserialize_with = "absent::or_default")]
    pub executable: bool,
}

/// How much of a demangled name is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Demangle {
    /// Everything: parameters, template arguments, qualifiers.
    #[default]
    Full,
    /// Without parameters and return type, with template arguments.
    Templates,
    /// Without parameters, return type and template arguments.
    Simple,
    /// As the linker knows it.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_request_has_the_documented_defaults() {
        let request: SymbolizeRequest =
            serde_json::from_str(r#"{"modules":[{"build_id":"ab","addresses":["0x1"]}]}"#).unwrap();
        let expected = SymbolizeRequest {
            modules: vec![Module {
                build_id: "ab".to_owned(),
                addresses: vec![Address::Known(1)],
                ..Module::default()
            }],
            ..SymbolizeRequest::default()
        };
        assert_eq!(request, expected);
        assert_eq!(
            (request.observe, request.inlines, request.wait_seconds),
            (true, true, 5)
        );
    }

    #[test]
    fn null_is_the_same_as_no_field_wherever_a_field_is_optional() {
        let text = r#"{"labels": null, "profile_id": null, "observe": null, "demangle": null,
            "inlines": null, "wait_seconds": null, "modules": [{"build_id": "ab", "addresses": [],
            "id_kind": null, "name": null, "address_kind": null, "adjust": null, "weights": null,
            "mapping": null, "segments": null}]}"#;
        let request: SymbolizeRequest = serde_json::from_str(text).unwrap();
        let bare = r#"{"modules": [{"build_id": "ab", "addresses": []}]}"#;
        assert_eq!(request, serde_json::from_str(bare).unwrap());
        let needed = r#"{"modules": [{"build_id": null, "addresses": []}]}"#;
        assert!(serde_json::from_str::<SymbolizeRequest>(needed).is_err());
    }

    #[test]
    fn the_documented_request_is_accepted_and_round_trips() {
        let text = r#"{ "labels": {"service": "checkout", "version": "2.4", "deployment": "prod"},
            "profile_id": "optional", "observe": true,
            "modules": [ { "build_id": "9a0f", "id_kind": "gnu", "name": "checkout",
                "address_kind": "process", "adjust": "call_site", "addresses": ["0x1139", 4409],
                "weights": [10, 1], "mapping": {"start": "0x1000", "end": 8192, "file_offset": 0},
                "segments": [{"address": "0x1000", "file_offset": 0, "file_size_bytes": 16}] } ],
            "demangle": "simple", "inlines": true, "wait_seconds": 5 }"#;
        let request: SymbolizeRequest = serde_json::from_str(text).unwrap();
        let again = serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap();
        assert_eq!(request, again);
    }

    #[test]
    fn an_unknown_field_is_refused_by_its_name_at_every_level() {
        for text in [
            r#"{"modules":[],"demangel":"full"}"#,
            r#"{"modules":[{"build_id":"ab","addresses":[],"demangel":1}]}"#,
            r#"{"modules":[],"labels":{"demangel":"x"}}"#,
        ] {
            let error = serde_json::from_str::<SymbolizeRequest>(text).unwrap_err();
            assert!(error.to_string().contains("demangel"), "{error}");
        }
    }
}
