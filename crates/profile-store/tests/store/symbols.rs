//! Names by the symbol server: what is asked, what is remembered and for how long.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::net::TcpListener;
use unhex_api::client::{ClientOptions, RetryPolicy};
use unhex_api::quality::Quality;
use unhex_api::symbolize::{AddressKind, ModuleStatus};
use unhex_build_id::{IdKind, Identity};
use unhex_pprof::CodeAddress;
use unhex_profile_store::answers::Outcome;
use unhex_profile_store::rows::NativeFrame;
use unhex_profile_store::symbols::{Names, Symbols, SymbolsOptions, Wanted};

use crate::symbol_server::{Known, SymbolServer};

const LONG: Duration = Duration::from_hours(1);

fn symbols(server: &SymbolServer, recheck: Duration) -> Symbols {
    Symbols::new(options(&server.url(), recheck)).unwrap()
}

fn options(url: &str, recheck: Duration) -> SymbolsOptions {
    SymbolsOptions {
        client: Some(ClientOptions {
            server: url.to_owned(),
            retries: RetryPolicy {
                attempts_max: 1,
                ..RetryPolicy::default()
            },
            ..ClientOptions::default()
        }),
        bytes_max: 1 << 20,
        recheck,
        wait: Duration::from_secs(20),
        rest: Duration::ZERO,
    }
}

fn place(build_id: &str, address: CodeAddress) -> NativeFrame {
    NativeFrame {
        identity: Some(Identity::parse(IdKind::Gnu, build_id).unwrap()),
        file_name: "/usr/bin/checkout".into(),
        address,
    }
}

fn link(build_id: &str, address: u64) -> NativeFrame {
    place(build_id, CodeAddress::Link(address))
}

async fn resolve(symbols: &Symbols, places: &[NativeFrame]) -> Names {
    let mut wanted = Wanted::default();
    for place in places {
        wanted.add(place);
    }
    symbols.resolve(&wanted).await
}

fn functions(names: &Names, place: &NativeFrame) -> Vec<String> {
    let calls = names.calls(place).iter();
    calls.map(|call| call.function.to_string()).collect()
}

#[tokio::test]
async fn many_places_are_one_unobserved_question_and_remembered() {
    let server = SymbolServer::start().await;
    server.know(
        "aa",
        Known::found("1", Quality::DwarfInlines, &[(1, &["inner", "outer"])]),
    );
    let symbols = symbols(&server, LONG);
    let places = [
        link("aa", 1),
        link("aa", 2),
        place("aa", CodeAddress::FileOffset(1)),
        link("bb", 1),
        NativeFrame {
            identity: None,
            ..link("aa", 1)
        },
    ];
    let names = resolve(&symbols, &places).await;
    assert_eq!(functions(&names, &places[0]), ["inner", "outer"]);
    assert_eq!(functions(&names, &places[2]), ["inner", "outer"]);
    let outcomes = places.each_ref().map(|place| names.outcome(place).outcome);
    let expected = [
        Outcome::Symbolized,
        Outcome::NoFunction,
        Outcome::Symbolized,
        Outcome::UnknownBuildId,
        Outcome::NoIdentity,
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(names.lacking(), None);
    let asked = server.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(!asked[0].observe);
    let kinds = asked[0]
        .modules
        .iter()
        .filter(|module| module.build_id == "aa");
    let kinds: Vec<_> = kinds.map(|module| module.address_kind).collect();
    assert_eq!(kinds, [AddressKind::Link, AddressKind::FileOffset]);

    let again = resolve(&symbols, &places).await;
    assert_eq!(functions(&again, &places[0]), ["inner", "outer"]);
    assert_eq!(server.asked().len(), 0);
    assert!(symbols.remembered_bytes() > 0);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_waited_for_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.accept().await.unwrap());
        }
    });
    let options = SymbolsOptions {
        wait: Duration::from_millis(300),
        rest: LONG,
        ..options(&url, LONG)
    };
    let symbols = Symbols::new(options).unwrap();
    let places = [link("aa", 1)];
    for spared in [0, 1, 2] {
        let names = resolve(&symbols, &places).await;
        let lacking = names.lacking().unwrap();
        assert_eq!(&*lacking.detail, "the symbol server takes too long");
        assert_eq!(names.outcome(&places[0]).outcome, Outcome::Unavailable);
        let counters = symbols.counters();
        let counted = [&counters.late, &counters.spared].map(|count| count.load(Relaxed));
        assert_eq!(counted, [1, spared]);
    }
    silent.abort();
}

#[tokio::test]
async fn an_upload_gives_old_places_names_and_a_better_one_better_names() {
    let server = SymbolServer::start().await;
    let symbols = symbols(&server, Duration::ZERO);
    let places = [link("aa", 1), link("aa", 2)];
    let names = resolve(&symbols, &places).await;
    assert_eq!(names.outcome(&places[0]).outcome, Outcome::UnknownBuildId);
    assert_eq!(names.lacking(), None);

    server.know(
        "aa",
        Known::found("1", Quality::Symtab, &[(1, &["f"]), (2, &["g"])]),
    );
    let names = resolve(&symbols, &places).await;
    assert_eq!(functions(&names, &places[0]), ["f"]);
    assert_eq!(names.outcome(&places[0]).quality, Some(Quality::Symtab));

    let better: &[(u64, &[&str])] = &[(1, &["inlined", "f"]), (2, &["g"])];
    server.know("aa", Known::found("2", Quality::DwarfInlines, better));
    let names = resolve(&symbols, &places).await;
    assert_eq!(functions(&names, &places[0]), ["inlined", "f"]);
    assert_eq!(
        names.outcome(&places[1]).quality,
        Some(Quality::DwarfInlines)
    );
}

#[tokio::test]
async fn a_binary_that_is_the_same_as_before_is_checked_without_addresses() {
    let server = SymbolServer::start().await;
    server.know("aa", Known::found("1", Quality::Symtab, &[(1, &["f"])]));
    let symbols = symbols(&server, Duration::ZERO);
    let places = [link("aa", 1), link("bb", 1)];
    resolve(&symbols, &places).await;
    server.asked();
    let names = resolve(&symbols, &places).await;
    assert_eq!(functions(&names, &places[0]), ["f"]);
    let asked = server.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0]
            .modules
            .iter()
            .all(|module| module.addresses.is_empty())
    );
}

#[tokio::test]
async fn what_is_remembered_stands_while_the_server_is_away_and_the_rest_is_said_to_lack() {
    let mut server = SymbolServer::start().await;
    server.know(
        "aa",
        Known::found("1", Quality::Symtab, &[(1, &["f"]), (2, &["g"])]),
    );
    let symbols = symbols(&server, Duration::ZERO);
    let (old, new) = (link("aa", 1), [link("aa", 1), link("aa", 2), link("cc", 1)]);
    resolve(&symbols, &[old]).await;

    server.go_away().await;
    let names = resolve(&symbols, &new).await;
    assert_eq!(functions(&names, &new[0]), ["f"]);
    assert_eq!(functions(&names, &new[1]), Vec::<String>::new());
    assert_eq!(names.outcome(&new[1]).outcome, Outcome::Unavailable);
    assert_eq!(names.outcome(&new[2]).outcome, Outcome::Unavailable);
    let lacking = names.lacking().unwrap();
    assert_eq!(lacking.frames, 2);
    assert!(lacking.detail.contains("symbol server"), "{lacking:?}");

    server.come_back().await;
    let names = resolve(&symbols, &new).await;
    assert_eq!(functions(&names, &new[1]), ["g"]);
    assert_eq!(names.outcome(&new[2]).outcome, Outcome::UnknownBuildId);
    assert_eq!(names.lacking(), None);
}

#[tokio::test]
async fn symbols_that_are_coming_are_lacking_and_soon_asked_for_again() {
    let server = SymbolServer::start().await;
    server.know("aa", Known::nothing(ModuleStatus::Pending));
    let symbols = symbols(&server, Duration::from_millis(1));
    let place = [link("aa", 1)];
    let names = resolve(&symbols, &place).await;
    assert_eq!(names.outcome(&place[0]).outcome, Outcome::Pending);
    assert_eq!(names.lacking().unwrap().frames, 1);
    server.know("aa", Known::found("1", Quality::Symtab, &[(1, &["f"])]));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let names = resolve(&symbols, &place).await;
        if functions(&names, &place[0]) == ["f"] {
            return assert_eq!(names.lacking(), None);
        }
        assert!(tokio::time::Instant::now() < deadline, "{names:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn more_places_than_one_request_takes_go_into_several() {
    let server = SymbolServer::start().await;
    server.know(
        "aa",
        Known::found("1", Quality::Symtab, &[(1, &["f"]), (150_001, &["g"])]),
    );
    let symbols = symbols(&server, LONG);
    let places: Vec<NativeFrame> = (1..=150_001).map(|address| link("aa", address)).collect();
    let names = resolve(&symbols, &places).await;
    assert_eq!(functions(&names, &places[150_000]), ["g"]);
    assert_eq!(names.lacking(), None);
    let asked = server.asked();
    let counts = asked
        .iter()
        .map(|request| request.modules[0].addresses.len());
    assert_eq!(counts.sum::<usize>(), 150_001);
    assert_eq!(asked.len(), 2);
}
