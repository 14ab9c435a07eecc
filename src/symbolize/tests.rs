//! Answers over an index made from a model, without a server: what is written, in both forms.

use unhex_api::symbolize::{
    Address, AddressKind, CompactAnswer, Demangle, Module, ModuleStatus, Reason, SymbolizeAnswer,
    SymbolizeRequest,
};
use unhex_symbols::model::{CallNode, Function, Model, ModelHeader, NONE, Row, SourcePath};
use unhex_symbols::quality::Quality;

use super::binaries::{Binary, OpenBinary};
use super::*;
use crate::artifacts::store::Lease;

const ID: &str = "ab01";

fn function(linkage: &str, full: &str, short: &str) -> Function {
    Function {
        linkage_name: linkage.to_owned(),
        full_name: full.to_owned(),
        short_name: short.to_owned(),
        declaration_file: NONE,
        ..Function::default()
    }
}

/// `outer` at 0x1000..0x1020 with `inner` inlined at 0x1008..0x1010, called in line 8.
fn model(header: ModelHeader) -> Model {
    let row = |address, node, line, column| Row {
        address,
        node,
        file: if node == NONE { NONE } else { 0 },
        line,
        column,
    };
    let root = CallNode {
        function: 0,
        parent: NONE,
        call_file: NONE,
        call_line: 0,
        call_column: 0,
        entry: 0x1000,
        size_bytes: 0x20,
    };
    let inlined = CallNode {
        function: 1,
        parent: 0,
        call_file: 0,
        call_line: 8,
        call_column: 4,
        entry: 0,
        size_bytes: 0,
    };
    Model {
        header,
        rows: vec![
            row(0x1000, 0, 7, 0),
            row(0x1008, 1, 3, 7),
            row(0x1010, 0, 9, 0),
            row(0x1020, NONE, 0, 0),
        ],
        nodes: vec![root, inlined],
        functions: vec![
            function("outer", "outer", "outer"),
            function("_Z5innerIiEvT_", "void inner<int>(int)", "inner"),
        ],
        files: vec![SourcePath {
            directory: "/src".to_owned(),
            name: "in \"q\".c".to_owned(),
        }],
    }
}

fn open(header: ModelHeader, quality: Quality) -> Binary {
    let mut bytes = Vec::new();
    unhex_symbols::index::write(model(header), &mut bytes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    std::fs::write(&path, bytes).unwrap();
    let open = open_indexes::open_and_verify(&path, Lease::unlimited()).unwrap();
    Binary::Open(OpenBinary {
        key: [0; 32],
        open: Arc::new(open),
        quality: words::quality(quality),
        origin: unhex_api::quality::Origin::Upload,
        segments: None,
    })
}

fn sound() -> Binary {
    open(ModelHeader::default(), Quality::DwarfInlines)
}

fn module(addresses: &[u64]) -> Module {
    Module {
        build_id: ID.to_owned(),
        addresses: addresses.iter().copied().map(Address::Known).collect(),
        ..Module::default()
    }
}

fn request(modules: Vec<Module>) -> SymbolizeRequest {
    SymbolizeRequest {
        modules,
        ..SymbolizeRequest::default()
    }
}

fn look_up(request: SymbolizeRequest, binary: Binary) -> Answer {
    let named = Named::by(&request.modules);
    Found::new(request, named, vec![binary]).look_up()
}

fn json(answer: Answer, piece_bytes: usize) -> String {
    let mut writer = JsonWriter::new(answer);
    let mut text = Vec::new();
    while !writer.is_done() {
        text.extend(writer.piece(piece_bytes));
    }
    String::from_utf8(text).unwrap()
}

fn answer(request: SymbolizeRequest, binary: Binary) -> SymbolizeAnswer {
    serde_json::from_str(&json(look_up(request, binary), usize::MAX)).unwrap()
}

#[test]
fn what_is_written_is_what_the_wire_types_write() {
    let request = request(vec![module(&[0x1008, 0x9999, 0x1000])]);
    let text = json(look_up(request, sound()), usize::MAX);
    let parsed: SymbolizeAnswer = serde_json::from_str(&text).unwrap();
    assert_eq!(text, serde_json::to_string(&parsed).unwrap());
    // It changes with every version of the converter.
    let generation = parsed.modules[0].generation.as_deref().unwrap();
    let text = text.replace(generation, "GENERATION");
    insta::assert_snapshot!(text, @r#"{"modules":[{"build_id":"ab01","status":"found","quality":"dwarf_inlines","origin":"upload","generation":"GENERATION","frames":[[{"function":"void inner<int>(int)","linkage_name":"_Z5innerIiEvT_","file":"/src/in \"q\".c","line":3,"column":7,"inlined":true},{"function":"outer","file":"/src/in \"q\".c","line":8,"column":4,"offset":8}],[],[{"function":"outer","file":"/src/in \"q\".c","line":7,"offset":0}]],"reasons":[null,"no_function",null]}]}"#);
}

#[test]
fn pieces_of_any_size_make_the_same_answer() {
    let request = || {
        let empty = module(&[]);
        request(vec![
            module(&[0x1008, 0x9999, 0x1000]),
            empty,
            module(&[0x1010]),
        ])
    };
    let whole = json(look_up(request(), sound()), usize::MAX);
    for piece_bytes in [1, 2, 3, 50, 200, 400] {
        let pieces = json(look_up(request(), sound()), piece_bytes);
        assert_eq!(pieces, whole, "in pieces of {piece_bytes} bytes");
    }
}

#[test]
fn no_module_makes_an_empty_answer_in_both_forms() {
    let text = json(look_up(request(vec![]), sound()), 1);
    assert_eq!(text, r#"{"modules":[]}"#);
    let compact = look_up(request(vec![]), sound()).to_compact();
    let compact: CompactAnswer = serde_json::from_slice(&compact).unwrap();
    assert_eq!(compact, CompactAnswer::default());
}

#[test]
fn both_forms_say_the_same() {
    for demangle in [
        Demangle::Full,
        Demangle::Templates,
        Demangle::Simple,
        Demangle::None,
    ] {
        for inlines in [true, false] {
            let request = || SymbolizeRequest {
                demangle,
                inlines,
                ..request(vec![
                    module(&[0x1008, 0x9999, 0x1000, 0x100f]),
                    module(&[0x101f]),
                ])
            };
            let long = answer(request(), sound());
            let compact = look_up(request(), sound()).to_compact();
            let compact: CompactAnswer = serde_json::from_slice(&compact).unwrap();
            assert_eq!(compact.expand().unwrap(), long);
            assert!(compact.frames.len() <= 5, "{:?}", compact.frames);
        }
    }
}

#[test]
fn names_come_as_they_were_asked_for() {
    for (demangle, name) in [
        (Demangle::Full, "void inner<int>(int)"),
        (Demangle::Templates, "inner<int>"),
        (Demangle::Simple, "inner"),
        (Demangle::None, "_Z5innerIiEvT_"),
    ] {
        let request = SymbolizeRequest {
            demangle,
            ..request(vec![module(&[0x1008])])
        };
        let answer = answer(request, sound());
        let frame = &answer.modules[0].frames.as_ref().unwrap()[0][0];
        assert_eq!(frame.function.as_deref(), Some(name));
        let linkage = (demangle != Demangle::None).then_some("_Z5innerIiEvT_");
        assert_eq!(frame.linkage_name.as_deref(), linkage);
    }
}

#[test]
fn without_inlines_the_called_function_has_the_line_of_the_address() {
    let request = SymbolizeRequest {
        inlines: false,
        ..request(vec![module(&[0x1008])])
    };
    let frames = answer(request, sound()).modules.remove(0).frames.unwrap();
    assert_eq!(frames[0].len(), 1);
    let frame = &frames[0][0];
    assert_eq!(frame.function.as_deref(), Some("outer"));
    assert_eq!((frame.line, frame.column, frame.inlined), (3, 7, false));
    assert_eq!(frame.offset, Some(8));
}

#[test]
fn dynamic_symbols_are_no_debug_info_and_their_frames_are_given() {
    let binary = open(ModelHeader::default(), Quality::Dynsym);
    let module = answer(request(vec![module(&[0x1000])]), binary)
        .modules
        .remove(0);
    assert_eq!(module.status, ModuleStatus::NoDebugInfo);
    assert!(module.detail.unwrap().contains("unhex upload"));
    assert_eq!(module.frames.unwrap()[0].len(), 1);
}

#[test]
fn a_missing_supplement_is_the_reason_of_a_missing_function() {
    let header = ModelHeader {
        needs_supplement: Some(vec![0xcd, 0xef].into()),
        ..ModelHeader::default()
    };
    let binary = open(header, Quality::DwarfInlines);
    let module = answer(request(vec![module(&[0x9999, 0x1000])]), binary)
        .modules
        .remove(0);
    assert_eq!(
        module.reasons.unwrap(),
        [Some(Reason::NeedsSupplement), None]
    );
    assert!(module.detail.unwrap().contains("cdef"));
}

#[test]
fn what_is_wrong_with_a_module_is_said_beside_its_answers() {
    let mut offsets = module(&[0x10]);
    offsets.address_kind = AddressKind::FileOffset;
    let mut mapped = module(&[0x10]);
    mapped.address_kind = AddressKind::Process;
    let mut weighted = module(&[0x1000]);
    weighted.weights = Some(vec![1, 2]);
    let answer = answer(request(vec![offsets, mapped, weighted]), sound());
    let details: Vec<&str> = answer
        .modules
        .iter()
        .map(|m| m.detail.as_deref().unwrap())
        .collect();
    assert!(
        details[0].contains("upload the executable, or send `segments`"),
        "{details:?}"
    );
    assert!(details[1].contains("need `mapping`"), "{details:?}");
    assert_eq!(details[2], "weights are ignored: 2 for 1 addresses");
    assert!(
        answer
            .modules
            .iter()
            .all(|module| module.status == ModuleStatus::Found)
    );
}

#[test]
fn a_damaged_index_is_never_opened() {
    let mut bytes = Vec::new();
    unhex_symbols::index::write(model(ModelHeader::default()), &mut bytes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = open_indexes::open_and_verify(&path, Lease::unlimited()).unwrap_err();
    assert_eq!(error.to_string(), "the symbol index is damaged");
}
