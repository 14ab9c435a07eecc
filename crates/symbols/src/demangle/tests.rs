//! Names of real programs, and names that were made to break demanglers.

use proptest::prelude::*;

use super::*;

fn modes(linkage: &str, language: Language) -> [String; 3] {
    let Demangled { full, short } = Demangled::of(linkage, language);
    let names = Names {
        linkage,
        full: &full,
        short: &short,
    };
    let templates = DemangleMode::Templates.name(names).into_owned();
    [full, templates, short]
}

#[test]
fn cpp_names_have_three_forms() {
    let cases = [
        ("_Z3fooi", "foo(int)", "foo", "foo"),
        ("_ZN1A3barERKi", "A::bar(int const&)", "A::bar", "A::bar"),
        ("_ZNK1A3barEv", "A::bar() const", "A::bar", "A::bar"),
        (
            "_Z3maxIiET_S0_S0_",
            "int max<int>(int, int)",
            "max<int>",
            "max",
        ),
        (
            "_ZN12_GLOBAL__N_13fooEi",
            "(anonymous namespace)::foo(int)",
            "(anonymous namespace)::foo",
            "(anonymous namespace)::foo",
        ),
    ];
    for (linkage, full, templates, short) in cases {
        assert_eq!(
            modes(linkage, Language::Cpp),
            [full, templates, short],
            "{linkage}"
        );
    }
}

#[test]
fn operators_and_thunks_keep_their_names() {
    let cases = [
        (
            "_ZNK1AclEi",
            "A::operator()(int) const",
            "A::operator()",
            "A::operator()",
        ),
        (
            "_ZltRK1AS1_",
            "operator<(A const&, A const&)",
            "operator<",
            "operator<",
        ),
        (
            "_ZltIiEbRK1AIT_ES4_",
            "bool operator< <int>(A<int> const&, A<int> const&)",
            "operator< <int>",
            "operator<",
        ),
        (
            "_ZN1AcvbEv",
            "A::operator bool()",
            "A::operator bool",
            "A::operator bool",
        ),
        (
            "_Znwm",
            "operator new(unsigned long)",
            "operator new",
            "operator new",
        ),
        (
            "_ZN1AptEv",
            "A::operator->()",
            "A::operator->",
            "A::operator->",
        ),
        (
            "_ZZN1A3barEvENKUliE_clEi",
            "A::bar()::{lambda(int)#1}::operator()(int) const",
            "A::bar::{lambda(int)#1}::operator()",
            "A::bar::{lambda(int)#1}::operator()",
        ),
        (
            "_ZNSt6vectorIiSaIiEE9push_backEOi",
            "std::vector<int, std::allocator<int> >::push_back(int&&)",
            "std::vector<int, std::allocator<int> >::push_back",
            "std::vector::push_back",
        ),
    ];
    for (linkage, full, templates, short) in cases {
        assert_eq!(
            modes(linkage, Language::Cpp),
            [full, templates, short],
            "{linkage}"
        );
    }
}

#[test]
fn rust_names_lose_their_hash_and_their_generics() {
    let cases = [
        (
            "_ZN4core3ptr13drop_in_place17h0123456789abcdefE",
            "core::ptr::drop_in_place",
            "core::ptr::drop_in_place",
        ),
        (
            "_ZN100_$LT$clap_builder..builder..value_parser..EnumValueParser$LT$E$GT$$u20$as$u20$core..clone..Clone$GT$5clone17h2230a2f76ba5c17eE",
            "<clap_builder::builder::value_parser::EnumValueParser<E> as core::clone::Clone>::clone",
            "<clap_builder::builder::value_parser::EnumValueParser as core::clone::Clone>::clone",
        ),
        (
            "_ZN4main4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE.llvm.1234567890",
            "main::main::{{closure}}",
            "main::main::{{closure}}",
        ),
        ("_RNvCs1234_7mycrate3foo", "mycrate::foo", "mycrate::foo"),
        (
            "_RINvCs1234_7mycrate3foolE",
            "mycrate::foo::<i32>",
            "mycrate::foo",
        ),
    ];
    for (linkage, full, short) in cases {
        for language in [Language::Rust, Language::Unknown] {
            assert_eq!(modes(linkage, language), [full, full, short], "{linkage}");
        }
    }
}

#[test]
fn suffixes_of_clones_stand_in_the_full_name_only() {
    let cases = [
        ("_Z3foov.cold", "foo() [clone .cold]", "foo"),
        (
            "_Z3foov.isra.0.cold",
            "foo() [clone .isra.0] [clone .cold]",
            "foo",
        ),
        ("_Z3foov.llvm.17612936745", "foo()", "foo"),
        ("foo.part.0", "foo.part.0", "foo"),
        ("foo.constprop.0.isra.0", "foo.constprop.0.isra.0", "foo"),
        ("main.main", "main.main", "main.main"),
        (
            "runtime.goexit.abi0",
            "runtime.goexit.abi0",
            "runtime.goexit.abi0",
        ),
        (".text", ".text", ".text"),
    ];
    for (linkage, full, short) in cases {
        let names = modes(linkage, Language::Unknown);
        assert_eq!([&*names[0], &*names[2]], [full, short], "{linkage}");
    }
}

#[test]
fn a_name_that_is_not_mangled_stays_as_it_is() {
    for name in [
        "main",
        "",
        "_Z",
        "_Zgarbage",
        "_R",
        "___",
        "operator<",
        "a<b>(c)",
        "_ZN",
    ] {
        assert_eq!(Demangled::of(name, Language::Unknown).full, name);
    }
}

/// A name of which each substitution doubles the type before it.
fn doubling(levels: u32) -> String {
    let mut name = "_Z1fI1XIiiE".to_owned();
    for number in 0..levels {
        let digit = |n: u32| char::from_digit(n, 36).unwrap().to_ascii_uppercase();
        let previous = match number + 1 {
            n if n < 36 => format!("S{}_", digit(n)),
            n => format!("S{}{}_", digit(n / 36), digit(n % 36)),
        };
        name.extend(["S_I", &previous, &previous, "E"]);
    }
    name + "EvT_"
}

#[test]
fn a_name_that_demangles_to_gigabytes_is_told_from_one_that_is_only_long() {
    let mut allowance = Allowance::default();
    let mut counted = |levels| Demangled::counted(&doubling(levels), Language::Cpp, &mut allowance);
    for levels in [4, 12, 14] {
        let short = counted(levels).unwrap();
        assert_eq!(short.full.starts_with("_Z"), levels > 4, "{}", short.full);
    }
    for levels in [30, 60, 200] {
        assert_eq!(counted(levels), Err(Endless), "{levels}");
    }
    // What was thrown away is not given twice.
    assert_eq!(counted(30).unwrap().full, doubling(30));
}

#[test]
fn a_name_that_demangles_to_gigabytes_or_nests_without_end_stays_mangled() {
    let bomb = doubling(60);
    assert_eq!(Demangled::of(&bomb, Language::Cpp).full, bomb);
    let deep = format!("_Z1f{}i", "P".repeat(100_000));
    assert_eq!(Demangled::of(&deep, Language::Cpp).full, deep);
    let deep = format!("_RINvCs1_1a1b{}lE", "R".repeat(100_000));
    assert!(Demangled::of(&deep, Language::Rust).full.len() <= deep.len());
    let open = format!("_ZN{}E", "1aI".repeat(50_000));
    assert!(Demangled::of(&open, Language::Cpp).full.len() <= open.len());
}

proptest! {
    #[test]
    fn any_text_has_names_in_all_modes(text in "(_Z|_R|_ZN|)[a-zA-Z0-9_$.<>(){}\\[\\] :&*-]{0,80}") {
        for language in [Language::Cpp, Language::Rust, Language::C] {
            let [full, templates, short] = modes(&text, language);
            prop_assert!(full.len() <= DEMANGLED_BYTES_MAX.max(text.len()));
            prop_assert!(templates.len() <= full.len());
            prop_assert!(short.len() <= full.len());
        }
    }

    #[test]
    fn any_text_is_shortened_without_a_panic(text in "(operator|<|>|\\(|\\)|->|::| |é|\\{|\\}|a){0,30}") {
        let _ = shorten::without_templates(&shorten::without_parameters(&text));
        let _ = shorten::rust(&text);
    }
}
