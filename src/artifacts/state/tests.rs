//! The fold: pure, order-free, better before worse, whatever the records.

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use unhex_build_id::BuildId;
use unhex_symbols::elf::{AllocatedSection, ElfClass, ElfRole, ElfSummary, TextHash};
use unhex_symbols::segments::LoadSegments;

use super::*;
use crate::artifacts::index_standing::IndexStanding;
use crate::artifacts::record::Provenance;
use crate::artifacts::store::BlobForm;
use crate::artifacts::{ContentHash, UploadId};
use crate::conversion::{IndexFailure, IndexFailureKind};

fn id() -> BuildId {
    BuildId::from_bytes(&[0xab; 20]).unwrap()
}

fn upload(number: u8) -> UploadId {
    UploadId::new(
        UNIX_EPOCH + Duration::from_secs(u64::from(number)),
        [number; 10],
    )
}

fn elf(entry: u64) -> ElfSummary {
    ElfSummary {
        class: ElfClass::Elf64,
        little_endian: true,
        file_type: 3,
        machine: 62,
        entry,
        segments: LoadSegments::default(),
        allocated_sections: vec![AllocatedSection {
            name: ".text".to_owned(),
            address: 0x1000,
            size_bytes: 0x100,
            kind: 1,
            flags: 6,
        }],
        text_sha256: Some(TextHash([1; 32])),
        role: ElfRole::Both,
        quality_estimate: Quality::DwarfInlines,
        build_id: Some(id()),
        go_build_id: None,
        debug_link: None,
        supplement: None,
        is_supplement: false,
        split_dwarf: None,
    }
}

/// A file with content `content`; two files of one content are copies.
fn artifact(number: u8, content: u8, quality: Quality) -> ArtifactRecord {
    ArtifactRecord {
        kind: ArtifactKind::Debuginfo,
        kinds: [ArtifactKind::Debuginfo].into(),
        sha256: ContentHash([content; 32]),
        size_bytes: 100,
        blob: BlobForm::Identity,
        quality,
        origin: Origin::Upload,
        provenance: Provenance {
            at_unix_seconds: number.into(),
            ..Provenance::default()
        },
        identities: Vec::new(),
        elf: Some(elf(0x1000)),
        source_files: None,
    }
}

fn record(number: u8, body: RecordBody) -> Known {
    Known::Record(Arc::new(Record::new(id(), upload(number), body)))
}

fn stored_file(number: u8, artifact: ArtifactRecord) -> Known {
    record(number, RecordBody::Artifact(Box::new(artifact)))
}

fn index(number: u8, sources: &[u8], version: u32) -> Known {
    index_of_quality(number, sources, (version, Quality::DwarfLines))
}

fn index_of_quality(number: u8, sources: &[u8], (version, quality): (u32, Quality)) -> Known {
    record(
        number,
        RecordBody::Index(IndexRecord {
            sources: sources
                .iter()
                .map(|&content| ContentHash([content; 32]))
                .collect(),
            converter_version: version,
            sha256: ContentHash([number; 32]),
            size_bytes: 10,
            blob: BlobForm::Identity,
            quality,
            functions: 1,
            lines: 2,
            units_failed: 0,
            supplement: None,
            needs_supplement: None,
        }),
    )
}

fn failure(number: u8, sources: &[u8], version: u32) -> Known {
    record(
        number,
        RecordBody::Failure(FailureRecord {
            sources: sources
                .iter()
                .map(|&content| ContentHash([content; 32]))
                .collect(),
            converter_version: version,
            supplement: None,
            failure: IndexFailure {
                kind: IndexFailureKind::Malformed,
                detail: format!("try {number}"),
            },
        }),
    )
}

fn tombstone(number: u8, deleted: impl IntoIterator<Item = RecordName>) -> Known {
    record(
        number,
        RecordBody::Tombstone(TombstoneRecord {
            deleted: deleted.into_iter().collect(),
            provenance: Provenance::default(),
        }),
    )
}

fn best(state: &State, kind: ArtifactKind) -> Option<u8> {
    state.best(kind).map(|best| best.body.sha256.0[0])
}

fn quality() -> impl Strategy<Value = Quality> {
    use Quality::{DwarfInlines, DwarfLines, Dynsym, GoPclntab, None, Symtab};
    prop::sample::select(vec![
        None,
        Dynsym,
        Symtab,
        GoPclntab,
        DwarfLines,
        DwarfInlines,
    ])
}

fn any_artifact() -> impl Strategy<Value = ArtifactRecord> {
    let kinds = prop::sample::subsequence(
        vec![ArtifactKind::Executable, ArtifactKind::Debuginfo],
        1..=2,
    );
    (
        any::<u8>(),
        0..6_u8,
        quality(),
        kinds,
        any::<bool>(),
        0..3_u64,
    )
        .prop_map(|(number, content, quality, kinds, upstream, code)| {
            let mut artifact = artifact(number, content, quality);
            artifact.kind = kinds[0];
            artifact.kinds = kinds.into_iter().collect();
            artifact.origin = if upstream {
                Origin::Upstream
            } else {
                Origin::Upload
            };
            artifact.elf = (code > 0).then(|| elf(0x1000 * code));
            artifact
        })
}

/// Records of one build ID, deletions of some of them among them.
fn any_records() -> impl Strategy<Value = Vec<Known>> {
    let known = prop_oneof![
        4 => (any::<u8>(), any_artifact()).prop_map(|(number, body)| stored_file(number, body)),
        2 => (any::<u8>(), prop::collection::vec(0..6_u8, 1..3), (1..3_u32, quality()))
            .prop_map(|(number, sources, made)| index_of_quality(number, &sources, made)),
        1 => (any::<u8>(), prop::collection::vec(0..6_u8, 1..3), 1..3_u32)
            .prop_map(|(number, sources, version)| failure(number, &sources, version)),
    ];
    (
        prop::collection::vec(known, 0..12),
        prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    )
        .prop_map(|(known, deleted)| {
            // A name stands for one record, as in a store.
            let mut by_name: BTreeMap<RecordName, Known> = known
                .into_iter()
                .map(|known| (known.name(), known))
                .collect();
            if !by_name.is_empty() && !deleted.is_empty() {
                let names: Vec<RecordName> = by_name.keys().copied().collect();
                let tombstone = tombstone(255, deleted.iter().map(|at| *at.get(&names)));
                by_name.insert(tombstone.name(), tombstone);
            }
            by_name.into_values().collect()
        })
}

proptest! {
    #[test]
    fn the_order_of_records_and_repetitions_change_nothing(
        (records, shuffled) in any_records()
            .prop_flat_map(|records| (Just(records.clone()), Just(records).prop_shuffle())),
        repeated in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let expected = State::fold(records);
        let mut again = shuffled.clone();
        if !shuffled.is_empty() {
            again.extend(repeated.iter().map(|at| at.get(&shuffled).clone()));
        }
        prop_assert_eq!(State::fold(again), expected);
    }

    #[test]
    fn every_living_file_is_shown_once_and_the_best_of_a_kind_is_never_worse(
        records in any_records(),
    ) {
        let state = State::fold(records.clone());
        let living = records.iter().filter(|known| {
            matches!(known.name().kind, RecordKind::Artifact(_))
                && !state.deleted.contains(&known.name())
        });
        let shown = state.artifacts.len() + state.conflicts.len();
        prop_assert_eq!(living.count(), shown);
        for kind in state.kinds() {
            let best = state.best(kind).unwrap();
            for other in state.of_kind(kind) {
                prop_assert!(other.body.quality <= best.body.quality);
                if other.body.quality == best.body.quality && best.body.origin == Origin::Upstream {
                    prop_assert_eq!(other.body.origin, Origin::Upstream);
                }
            }
        }
        for (at, artifact) in state.artifacts.iter().enumerate() {
            for other in &state.artifacts[..at] {
                prop_assert_eq!(difference(&other.body, &artifact.body), None);
            }
        }
    }

    #[test]
    fn a_worse_file_of_the_same_code_never_changes_the_best(
        records in any_records(),
        content in 10..20_u8,
    ) {
        let before = State::fold(records.clone());
        let Some(known) = before.best(ArtifactKind::Debuginfo).cloned() else {
            return Ok(());
        };
        prop_assume!(known.body.quality > Quality::None);
        let mut worse = artifact(1, content, Quality::None);
        worse.elf.clone_from(&known.body.elf);
        let after = State::fold(records.into_iter().chain([stored_file(1, worse)]));
        prop_assert_eq!(after.best(ArtifactKind::Debuginfo), Some(&known));
    }

    #[test]
    fn the_generation_changes_exactly_when_the_set_does(
        records in any_records(),
        left_out in any::<prop::sample::Index>(),
    ) {
        let whole = State::fold(records.clone());
        prop_assert_eq!(State::fold(records.clone()).generation, whole.generation);
        if !records.is_empty() {
            let mut fewer = records;
            fewer.remove(left_out.index(fewer.len()));
            prop_assert_ne!(State::fold(fewer).generation, whole.generation);
        }
    }
}

fn check_that_removing_what_is_superseded_changes_nothing(records: Vec<Known>, version: u32) {
    let state = State::fold(records.clone());
    let gone = state.superseded(version);
    let rest = records.into_iter();
    let after = State::fold(rest.filter(|known| !gone.contains(&known.name())));
    assert_eq!(after.index(version), state.index(version));
    assert_eq!(after.artifacts, state.artifacts);
    assert_eq!(after.conflicts, state.conflicts);
    assert_eq!(after.superseded(version), BTreeSet::new());
}

proptest! {
    #[test]
    fn removing_what_is_superseded_changes_nothing(records in any_records(), version in 1..4_u32) {
        check_that_removing_what_is_superseded_changes_nothing(records, version);
    }
}

#[test]
fn all_that_is_superseded_is_found_at_once() {
    // Of the debug file 0 an older converter made an index with lines and one without; neither is of
    // use.
    let records = vec![
        stored_file(0, artifact(0, 0, Quality::None)),
        stored_file(3, artifact(3, 3, Quality::Dynsym)),
        index_of_quality(0, &[3], (2, Quality::None)),
        index_of_quality(1, &[0], (1, Quality::DwarfLines)),
        index_of_quality(2, &[0], (1, Quality::None)),
    ];
    assert_eq!(State::fold(records.clone()).superseded(2).len(), 2);
    check_that_removing_what_is_superseded_changes_nothing(records, 2);
    // One that stays is doubted as long as there is the other.
    let records = vec![
        stored_file(0, artifact(0, 0, Quality::DwarfLines)),
        index_of_quality(0, &[0], (1, Quality::DwarfLines)),
        index_of_quality(1, &[0], (2, Quality::None)),
    ];
    assert!(State::fold(records.clone()).superseded(2).is_empty());
    check_that_removing_what_is_superseded_changes_nothing(records, 2);
}

#[test]
fn quality_decides_before_origin_and_origin_before_age() {
    let mut upstream = artifact(1, 1, Quality::DwarfInlines);
    upstream.origin = Origin::Upstream;
    let state = State::fold([
        stored_file(1, upstream.clone()),
        stored_file(2, artifact(2, 2, Quality::Symtab)),
    ]);
    assert_eq!(best(&state, ArtifactKind::Debuginfo), Some(1));
    let state = State::fold([
        stored_file(1, upstream),
        stored_file(2, artifact(2, 2, Quality::DwarfInlines)),
        stored_file(3, artifact(3, 3, Quality::DwarfInlines)),
    ]);
    assert_eq!(best(&state, ArtifactKind::Debuginfo), Some(2));
    let (best, worse) = (&state.artifacts[0], &state.artifacts[2]);
    assert_eq!(
        worse.why_not(best),
        "an upload stands before a file from upstream"
    );
}

#[test]
fn of_two_codes_that_raced_one_wins_and_the_other_is_shown_with_the_difference() {
    let mut other = artifact(2, 2, Quality::DwarfInlines);
    other.elf = Some(elf(0x2000));
    let records = [
        stored_file(1, artifact(1, 1, Quality::DwarfInlines)),
        stored_file(2, other),
    ];
    let state = State::fold(records);
    assert_eq!(best(&state, ArtifactKind::Debuginfo), Some(1));
    assert_eq!(state.conflicts.len(), 1);
    let difference = &state.conflicts[0].difference;
    assert!(difference.contains("entry point"), "{difference}");
}

#[test]
fn what_a_tombstone_names_is_gone_and_what_came_beside_it_stays() {
    let first = stored_file(1, artifact(1, 1, Quality::Symtab));
    let second = stored_file(2, artifact(2, 1, Quality::Symtab));
    let deletion = tombstone(3, [first.name()]);
    let state = State::fold([deletion.clone(), first.clone()]);
    assert!(state.is_empty());
    let state = State::fold([first, deletion, second]);
    assert_eq!(best(&state, ArtifactKind::Debuginfo), Some(1));
    assert_eq!(state.living().len(), 1);
}

#[test]
fn an_index_belongs_to_its_sources_and_its_converter() {
    let mut executable = artifact(2, 2, Quality::Dynsym);
    executable.kind = ArtifactKind::Executable;
    executable.kinds = [ArtifactKind::Executable].into();
    let debuginfo = stored_file(1, artifact(1, 1, Quality::DwarfInlines));
    let alone = State::fold([debuginfo.clone(), index(3, &[1], 1)]);
    assert!(matches!(alone.index(1), IndexStanding::Ready(_)));
    assert!(matches!(
        alone.index(2),
        IndexStanding::Wanted {
            meanwhile: None,
            ..
        }
    ));

    let both = [debuginfo, stored_file(2, executable), index(3, &[1], 1)];
    let IndexStanding::Wanted { plan, meanwhile } = State::fold(both.clone()).index(1) else {
        panic!("the executable came later");
    };
    assert_eq!(plan.sources().len(), 2);
    assert!(meanwhile.is_some());
    let done = both.into_iter().chain([index(4, &[1, 2], 1)]);
    assert!(matches!(
        State::fold(done).index(1),
        IndexStanding::Ready(_)
    ));
}

#[test]
fn a_debug_file_that_cannot_be_converted_does_not_hide_the_next_one() {
    let records = [
        stored_file(1, artifact(1, 1, Quality::DwarfInlines)),
        stored_file(2, artifact(2, 2, Quality::Symtab)),
    ];
    let failed = |number, sources| failure(number, sources, 1);
    let state = State::fold(records.clone().into_iter().chain([failed(3, &[1])]));
    let IndexStanding::Wanted { plan, .. } = state.index(1) else {
        panic!("the second file was not tried");
    };
    assert_eq!(plan.sources(), [ContentHash([2; 32])].into());
    let all = records
        .into_iter()
        .chain([failed(3, &[1]), failed(4, &[2])]);
    let IndexStanding::Failed(failure) = State::fold(all.clone()).index(1) else {
        panic!("both failed");
    };
    assert_eq!(failure.detail, "try 3");
    assert!(matches!(
        State::fold(all).index(2),
        IndexStanding::Wanted { .. }
    ));
}

#[test]
fn a_file_that_only_looks_like_dwarf_does_not_hide_a_better_one() {
    let hollow = stored_file(1, artifact(1, 1, Quality::DwarfInlines));
    let sound = stored_file(2, artifact(2, 2, Quality::DwarfInlines));
    let index = index_of_quality(3, &[1], (1, Quality::Symtab));
    let state = State::fold([hollow.clone(), sound, index.clone()]);
    assert_eq!(best(&state, ArtifactKind::Debuginfo), Some(2));
    assert!(matches!(state.index(1), IndexStanding::Wanted { .. }));
    let state = State::fold([hollow, index]);
    assert_eq!(
        best(&state, ArtifactKind::Debuginfo),
        Some(1),
        "it is better than nothing"
    );
    assert_eq!(state.quality(1), Quality::Symtab);
}

#[test]
fn an_unreadable_record_makes_absence_uncertain() {
    let name = stored_file(1, artifact(1, 1, Quality::Symtab)).name();
    let lost = Known::Unreadable(Unreadable {
        name,
        detail: "torn".to_owned(),
    });
    let state = State::fold([lost]);
    assert!(state.is_empty());
    assert!(state.check_readable().is_err());
}

/// A package of split units, which has neither quality nor code.
fn package(number: u8) -> Known {
    let mut package = artifact(number, number, Quality::None);
    package.kind = ArtifactKind::Dwp;
    package.kinds = [ArtifactKind::Dwp].into();
    stored_file(number, package)
}

#[test]
fn a_damaged_package_takes_nothing_away_and_a_later_sound_one_is_used() {
    let debuginfo = stored_file(1, artifact(1, 1, Quality::DwarfInlines));
    let before = index(2, &[1], 1);
    let with_damaged = [
        debuginfo,
        before.clone(),
        package(3),
        failure(4, &[1, 3], 1),
    ];
    let IndexStanding::Ready(kept) = State::fold(with_damaged.clone()).index(1) else {
        panic!("the index without the package is there");
    };
    assert_eq!(kept.name, before.name());

    let sound = with_damaged.into_iter().chain([package(5)]);
    let IndexStanding::Wanted { plan, meanwhile } = State::fold(sound.clone()).index(1) else {
        panic!("the sound package was not tried");
    };
    assert_eq!(
        plan.sources(),
        [ContentHash([1; 32]), ContentHash([5; 32])].into()
    );
    assert_eq!(meanwhile.unwrap().name, before.name());

    let made = index_of_quality(6, &[1, 5], (1, Quality::DwarfInlines));
    let state = State::fold(sound.chain([made.clone()]));
    let IndexStanding::Ready(best) = state.index(1) else {
        panic!("all was tried");
    };
    assert_eq!(best.name, made.name());
}

#[test]
fn when_every_package_fails_the_debug_file_is_tried_alone() {
    let debuginfo = stored_file(1, artifact(1, 1, Quality::DwarfInlines));
    let records = [debuginfo, package(2), failure(3, &[1, 2], 1)];
    let IndexStanding::Wanted { plan, .. } = State::fold(records.clone()).index(1) else {
        panic!("it was not tried without the package");
    };
    assert_eq!(plan.sources(), [ContentHash([1; 32])].into());
    let all = records.into_iter().chain([failure(4, &[1], 1)]);
    assert!(matches!(
        State::fold(all).index(1),
        IndexStanding::Failed(_)
    ));
}

#[test]
fn a_better_index_is_not_replaced_by_that_of_a_later_file_that_fails() {
    let debuginfo = stored_file(1, artifact(1, 1, Quality::DwarfInlines));
    let mut executable = artifact(2, 2, Quality::Symtab);
    executable.kind = ArtifactKind::Executable;
    executable.kinds = [ArtifactKind::Executable].into();
    let made = index(3, &[1], 1);
    let records = [
        debuginfo,
        stored_file(2, executable),
        made.clone(),
        failure(4, &[1, 2], 1),
        failure(5, &[2], 1),
    ];
    let IndexStanding::Ready(kept) = State::fold(records).index(1) else {
        panic!("the index of the debug file alone is sound");
    };
    assert_eq!(kept.name, made.name());
}
