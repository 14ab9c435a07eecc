//! What a path under `/buildid` asks for, decided from its raw bytes.
//!
//! No router may touch these paths: clients send `//`, `/./` and `/../` of source paths as they
//! stand in the debug information. The rules are the reference server's: decode once, then split,
//! so that a decoded `/` separates too; `+` is a plus; whatever follows `debuginfo` or `executable`
//! is ignored.

use std::str::FromStr;

use http::Uri;
use percent_encoding::percent_decode_str;
use unhex_build_id::{IdKind, Identity};

use super::error::ApiError;
use crate::artifacts::ArtifactKind;

/// The first segment of all these paths.
pub(super) const BUILDID: &str = "buildid";

/// A question of a debuginfod client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArtifactQuestion {
    /// Whose artifact.
    pub(super) identity: Identity,
    /// Which one.
    pub(super) wanted: Wanted,
}

/// What the protocol can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The file with DWARF or a symbol table.
    Debuginfo,
    /// The program or library.
    Executable,
    /// A source file; the decoded path, starting with `/`.
    Source(String),
    /// The bytes of a section of this name.
    Section(String),
}

impl Wanted {
    /// The word of the protocol.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Debuginfo => "debuginfo",
            Self::Executable => "executable",
            Self::Source(_) => "source",
            Self::Section(_) => "section",
        }
    }
}

/// Where an upload goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadTarget {
    /// The build that it belongs to.
    pub identity: Identity,
    /// What it is to that build.
    pub kind: ArtifactKind,
}

/// Why a path asks for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildPathError {
    /// A `%` without two hex digits behind it.
    #[error("malformed percent-encoding in the path")]
    PercentEncoding,
    /// Decoded bytes that are no text.
    #[error("the decoded path is not UTF-8")]
    NotUtf8,
    /// `%00`, which would end the path in other programs.
    #[error("the decoded path has a zero byte")]
    ZeroByte,
    /// Nothing behind `/buildid/`.
    #[error("need /buildid/BUILD_ID/TYPE")]
    Incomplete,
    /// Another word than the protocol has.
    #[error("invalid artifact type: debuginfo, executable, source or section")]
    ArtifactType,
    /// Another word than uploads have, or more behind it.
    #[error("invalid kind: PUT /buildid/BUILD_ID/{{debuginfo,executable,dwp,sources}}")]
    UploadKind,
    /// `/source` without a path.
    #[error("invalid source suffix: need /source/ABSOLUTE/PATH")]
    SourceSuffix,
    /// `/section` without a name.
    #[error("invalid section suffix: need /section/NAME")]
    SectionSuffix,
    /// The identity is not one.
    #[error("invalid build ID: {0}")]
    Identity(String),
}

impl From<BuildPathError> for ApiError {
    fn from(error: BuildPathError) -> Self {
        Self::bad_request(error.to_string())
    }
}

/// Whether a path that no route matched is one of these in another spelling: `//buildid`,
/// `/%62uildid`.
pub(super) fn is_build_path(path: &str) -> bool {
    decode(path).is_ok_and(|decoded| {
        let first = decoded.trim_start_matches('/').split('/').next();
        first == Some(BUILDID)
    })
}

/// The question that the path and the query of a GET or HEAD ask.
pub(super) fn question(uri: &Uri) -> Result<ArtifactQuestion, BuildPathError> {
    let decoded = decode(uri.path())?;
    let (id, rest) = split(&decoded)?;
    let (word, suffix) = match rest.find('/') {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    let wanted = match (word, suffix) {
        ("debuginfo", _) => Wanted::Debuginfo,
        ("executable", _) => Wanted::Executable,
        ("source", "") => return Err(BuildPathError::SourceSuffix),
        ("source", path) => Wanted::Source(path.to_owned()),
        ("section", "" | "/") => return Err(BuildPathError::SectionSuffix),
        ("section", name) => Wanted::Section(name.trim_start_matches('/').to_owned()),
        _ => return Err(BuildPathError::ArtifactType),
    };
    let identity = identity(id, uri)?;
    Ok(ArtifactQuestion { identity, wanted })
}

/// Where the path and the query of a PUT put its body.
///
/// # Errors
/// If they do not name one build and one kind, and nothing else.
pub fn upload_target(uri: &Uri) -> Result<UploadTarget, BuildPathError> {
    let decoded = decode(uri.path())?;
    let (id, kind) = split(&decoded)?;
    let kind = ArtifactKind::from_str(kind)
        .ok()
        .ok_or(BuildPathError::UploadKind)?;
    let identity = identity(id, uri)?;
    Ok(UploadTarget { identity, kind })
}

/// The identity that a path segment is, by the query's `id_kind`.
///
/// # Errors
/// If it is none of that kind, or there is no such kind.
pub fn identity(id: &str, uri: &Uri) -> Result<Identity, BuildPathError> {
    let kind = match id_kind(uri) {
        Some(word) => {
            IdKind::from_str(&word).map_err(|e| BuildPathError::Identity(e.to_string()))?
        }
        None => IdKind::Gnu,
    };
    Identity::parse(kind, id).map_err(|e| BuildPathError::Identity(e.to_string()))
}

/// The first `id_kind` of the query. Other parameters are nobody's business here.
fn id_kind(uri: &Uri) -> Option<String> {
    let mut pairs = uri.query()?.split('&');
    let value = pairs.find_map(|pair| pair.strip_prefix("id_kind="))?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

/// The identity of a decoded path and what follows its slash.
fn split(decoded: &str) -> Result<(&str, &str), BuildPathError> {
    decoded
        .trim_start_matches('/')
        .strip_prefix(BUILDID)
        .and_then(|rest| rest.strip_prefix('/'))
        .and_then(|rest| rest.split_once('/'))
        .filter(|(id, _)| !id.is_empty())
        .ok_or(BuildPathError::Incomplete)
}

/// Decodes a path once.
fn decode(path: &str) -> Result<String, BuildPathError> {
    let encoded_well = path.split('%').skip(1).all(|behind| {
        let mut digits = behind.bytes().take(2).filter(u8::is_ascii_hexdigit);
        digits.next().is_some() && digits.next().is_some()
    });
    if !encoded_well {
        return Err(BuildPathError::PercentEncoding);
    }
    let decoded = percent_decode_str(path)
        .decode_utf8()
        .ok()
        .ok_or(BuildPathError::NotUtf8)?;
    if decoded.contains('\0') {
        return Err(BuildPathError::ZeroByte);
    }
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asks(uri: &str) -> Result<Wanted, BuildPathError> {
        question(&uri.parse().unwrap()).map(|question| question.wanted)
    }

    #[test]
    fn whatever_follows_debuginfo_or_executable_is_ignored() {
        for suffix in ["", "/", "/extra/more", "?x=y", "/?x", "/%2F"] {
            assert_eq!(
                asks(&format!("/buildid/ab/debuginfo{suffix}")),
                Ok(Wanted::Debuginfo)
            );
            assert_eq!(
                asks(&format!("/buildid/ab/executable{suffix}")),
                Ok(Wanted::Executable)
            );
        }
        assert_eq!(
            asks("/buildid/ab/debuginfos"),
            Err(BuildPathError::ArtifactType)
        );
    }

    #[test]
    fn a_source_path_is_decoded_once_and_left_as_it_is() {
        let source = |path: &str| asks(&format!("/buildid/ab/source{path}"));
        for (path, decoded) in [
            ("/a/b.c", "/a/b.c"),
            ("//a/./b/../c.c", "//a/./b/../c.c"),
            ("/a%24b%3Bc%21d%20e%2Bf/%C3%A9", "/a$b;c!d e+f/é"),
            ("/a+b", "/a+b"),
            ("/%252B", "/%2B"),
            ("/%2e%2e/x", "/../x"),
            ("%2Fx", "/x"),
            ("/", "/"),
            ("/a?b=c", "/a"),
            ("/a%3Fb", "/a?b"),
        ] {
            assert_eq!(
                source(path),
                Ok(Wanted::Source(decoded.to_owned())),
                "{path}"
            );
        }
        assert_eq!(source(""), Err(BuildPathError::SourceSuffix));
    }

    #[test]
    fn a_section_needs_a_name() {
        let named = |name: &str| Ok(Wanted::Section(name.to_owned()));
        assert_eq!(asks("/buildid/ab/section/.text"), named(".text"));
        assert_eq!(asks("/buildid/ab/section/.a%20b"), named(".a b"));
        assert_eq!(
            asks("/buildid/ab/section"),
            Err(BuildPathError::SectionSuffix)
        );
        assert_eq!(
            asks("/buildid/ab/section/"),
            Err(BuildPathError::SectionSuffix)
        );
    }

    #[test]
    fn a_path_that_cannot_be_text_is_refused() {
        for (path, error) in [
            ("/buildid/ab/source/%zz", BuildPathError::PercentEncoding),
            ("/buildid/ab/source/x%4", BuildPathError::PercentEncoding),
            ("/buildid/ab/source/%", BuildPathError::PercentEncoding),
            ("/buildid/ab/source/%ff", BuildPathError::NotUtf8),
            ("/buildid/ab/source/a%00b", BuildPathError::ZeroByte),
        ] {
            assert_eq!(asks(path), Err(error), "{path}");
        }
    }

    #[test]
    fn other_spellings_of_the_first_segment_are_recognised() {
        assert_eq!(asks("//buildid/ab/debuginfo"), Ok(Wanted::Debuginfo));
        assert_eq!(asks("/%62uildid%2Fab/debuginfo"), Ok(Wanted::Debuginfo));
        assert!(is_build_path("//buildid/ab/debuginfo") && is_build_path("/buildid"));
        assert!(!is_build_path("/buildids/ab") && !is_build_path("/x/buildid/ab"));
    }

    #[test]
    fn an_identity_is_read_by_its_kind() {
        let identity = |uri: &str| question(&uri.parse().unwrap()).map(|q| q.identity);
        let lower = identity("/buildid/ab01/debuginfo").unwrap();
        assert_eq!(identity("/buildid/AB01/debuginfo"), Ok(lower.clone()));
        assert_eq!(identity("/buildid/ab01/debuginfo?id_kind=gnu"), Ok(lower));
        for wrong in ["abc", "zz", "%20", &"ab".repeat(65)] {
            let refused = identity(&format!("/buildid/{wrong}/debuginfo"));
            assert!(
                matches!(refused, Err(BuildPathError::Identity(_))),
                "{wrong}: {refused:?}"
            );
        }
        assert!(identity("/buildid/ab/debuginfo?id_kind=nonsense").is_err());
        for incomplete in [
            "/buildid",
            "/buildid/",
            "/buildid/ab",
            "/buildid//debuginfo",
        ] {
            assert_eq!(
                identity(incomplete),
                Err(BuildPathError::Incomplete),
                "{incomplete}"
            );
        }
    }

    #[test]
    fn an_upload_names_one_build_and_one_kind_only() {
        let target = |uri: &str| upload_target(&uri.parse().unwrap());
        assert_eq!(target("/buildid/ab/dwp").unwrap().kind, ArtifactKind::Dwp);
        for wrong in [
            "/buildid/ab/source/x",
            "/buildid/ab/debuginfo/",
            "/buildid/ab/",
        ] {
            assert_eq!(target(wrong), Err(BuildPathError::UploadKind), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics_and_none_with_a_zero_byte_is_taken(tail in "[!-~é]{0,40}", zero in "(%00|%|)") {
            for middle in ["ab/source/", "ab/section/", "", "ab/"] {
                let Ok(uri) = format!("/buildid/{middle}{tail}{zero}").parse::<Uri>() else {
                    continue;
                };
                let asked = question(&uri);
                if uri.path().ends_with("%00") || uri.path().ends_with('%') {
                    prop_assert!(asked.is_err(), "{uri}");
                }
                let _no_panic = upload_target(&uri);
            }
        }
    }
}
