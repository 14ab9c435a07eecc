//! `POST /observe` and the ledger: what arrived without symbols, since when, and what would mend it.

use serde::{Deserialize, Deserializer, Serialize};
use unhex_build_id::IdKind;
use utoipa::ToSchema;

use crate::absent;
use crate::artifacts::ArtifactKind;
use crate::symbolize::{Labels, ModuleStatus};

/// A profile arrived whose frames are named elsewhere. Everything but `modules[].build_id` is
/// optional; unknown fields are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ObserveRequest {
    /// Whose profile it is.
    #[serde(
        default,
        deserialize_with = "absent::or_default",
        skip_serializing_if = "Labels::is_empty"
    )]
    pub labels: Labels,
    /// Parts with one `profile_id` count as one profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<String>,
    /// `false` only asks for the status of each module.
    #[serde(default = "yes", deserialize_with = "absent::or_yes")]
    pub observe: bool,
    /// The modules in it.
    pub modules: Vec<ObserveModule>,
}

fn yes() -> bool {
    true
}

/// One module of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ObserveModule {
    /// The identity of the binary; what it is, `id_kind` says.
    pub build_id: String,
    /// The kind of identity: `gnu`, `go`, `htlhash`, `pdb` or `macho`.
    #[serde(default, deserialize_with = "absent::or_default")]
    #[schema(value_type = String, default = "gnu")]
    pub id_kind: IdKind,
    /// Its file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How often its frames were seen; 1 when missing.
    #[serde(default = "one", deserialize_with = "or_one")]
    pub weight: u64,
}

fn one() -> u64 {
    1
}

fn or_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(one))
}

/// The status of each module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObserveAnswer {
    /// One per module of the request, in its order.
    pub modules: Vec<ObservedStatus>,
}

/// Whether there are symbols of one module. Nothing was converted or waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObservedStatus {
    /// The identity as asked, lower case where it is hex.
    pub build_id: String,
    /// Whether there are symbols, and if not, why.
    pub status: ModuleStatus,
    /// What is wrong with the identity, when it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `GET /build-ids?status=unknown`: one page of build IDs that profiles had and that have no symbols.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UnknownBuildIdList {
    /// The page, in order of identity.
    pub build_ids: Vec<UnknownBuildId>,
    /// What to ask for next as `after`; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A build ID without symbols. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UnknownBuildId {
    /// The identity of the binary; what it is, `id_kind` says.
    pub build_id: String,
    /// The kind of identity.
    #[schema(value_type = String)]
    pub id_kind: IdKind,
    /// The file name that profiles gave last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Why it has no symbols.
    pub status: ModuleStatus,
    /// Which artifact would mend it, in words.
    pub detail: String,
    /// The kinds of artifact that would mend it, any of them; none when it may pass by itself.
    pub mended_by: Vec<ArtifactKind>,
    /// Whether the alert is about it now.
    pub alerting: bool,
    /// When the first profile with it came.
    pub first_seen: String,
    /// When the last one came.
    pub last_seen: String,
    /// Profiles that had it.
    pub profiles: u64,
    /// Addresses in it.
    pub addresses: u64,
    /// How often those were seen.
    pub weight: u64,
    /// Whose profiles they were, those of the last ones first.
    pub seen_by: Vec<UnknownSeenBy>,
    /// Why nobody is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<IgnoredBuildId>,
}

/// What one service, version and deployment sent of a build ID without symbols.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UnknownSeenBy {
    /// The service.
    pub service: String,
    /// Its version.
    pub version: String,
    /// Where it runs.
    pub deployment: String,
    /// When the first profile came.
    pub first_seen: String,
    /// When the last one came.
    pub last_seen: String,
    /// Profiles that had the build ID.
    pub profiles: u64,
    /// How much of what this version of the service sent lately is this build ID, from 0 to 1: of the
    /// addresses or of the samples, whichever is more.
    pub share: f64,
    /// Whether the alert of this label set is about the build ID.
    pub alerting: bool,
}

/// Why nobody is told of a build ID without symbols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IgnoredBuildId {
    /// The reason that was given, or that its file name is ignored.
    pub reason: String,
    /// Who decided, when the request was authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// When, as RFC 3339; absent when the file name decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// `GET /build-ids?status=ignored`: one page of build IDs that are ignored by a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IgnoredBuildIdList {
    /// The page, in order of identity.
    pub build_ids: Vec<IgnoredEntry>,
    /// What to ask for next as `after`; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A build ID that is ignored by a decision, whether profiles have it or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IgnoredEntry {
    /// The identity of the binary; what it is, `id_kind` says.
    pub build_id: String,
    /// The kind of identity.
    #[schema(value_type = String)]
    pub id_kind: IdKind,
    /// The file name that profiles gave last, when one came lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When the last profile with it came, as RFC 3339; absent when none came within a week, or it has
    /// symbols by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// Why nobody is told of it, who decided so, and when.
    pub ignored: IgnoredBuildId,
}

/// `PUT /build-ids/{id}/ignored`: nobody is to be told of this build ID any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IgnoreRequest {
    /// Why: whoever wonders later reads this.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_the_same_as_no_field_wherever_a_field_is_optional() {
        let text = r#"{"labels": null, "profile_id": null, "observe": null, "modules": [
            {"build_id": "ab", "id_kind": null, "name": null, "weight": null}]}"#;
        let request: ObserveRequest = serde_json::from_str(text).unwrap();
        let bare = r#"{"modules": [{"build_id": "ab"}]}"#;
        assert_eq!(request, serde_json::from_str(bare).unwrap());
    }

    #[test]
    fn the_smallest_profile_is_one_identity() {
        let request: ObserveRequest =
            serde_json::from_str(r#"{"modules":[{"build_id":"ab"}]}"#).unwrap();
        assert!(request.observe && request.labels.is_empty());
        assert_eq!(request.modules[0].weight, 1);
        let again = serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap();
        assert_eq!(request, again);
    }

    #[test]
    fn a_misspelt_field_is_refused_by_its_name() {
        let text = r#"{"modules":[{"build_id":"ab","wieght":1}]}"#;
        let error = serde_json::from_str::<ObserveRequest>(text).unwrap_err();
        assert!(error.to_string().contains("wieght"), "{error}");
    }
}
