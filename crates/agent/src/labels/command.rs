//! What a process is called when nobody named its service: its executable, or the script or archive that an interpreter runs.

use super::reading::Evidence;

/// Interpreters by the start of their executable's name, and which of their options take the argument behind them.
const INTERPRETERS: [(&str, &[&str]); 10] = [
    ("python", &["-W", "-X", "-Q", "--check-hash-based-pycs"]),
    ("pypy", &["-W", "-X"]),
    (
        "java",
        &[
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "--add-modules",
            "--add-opens",
            "--add-exports",
        ],
    ),
    (
        "node",
        &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "-C",
            "--conditions",
        ],
    ),
    ("ruby", &["-r", "-I", "-C", "-E"]),
    ("perl", &["-I", "-M"]),
    ("php", &["-c", "-d", "-z"]),
    ("bash", &["-o", "-O", "--rcfile"]),
    ("dash", &["-o"]),
    ("sh", &["-o"]),
];

/// A short name: never of a thread, never with a path.
pub(super) fn name(evidence: &Evidence) -> Option<String> {
    let executable = evidence.executable.trim_end_matches(" (deleted)");
    let program = base_name(executable);
    let first = evidence
        .arguments
        .first()
        .map_or("", |text| base_name(text));
    // Where the executable cannot be read, the command line says it.
    let program = if program.is_empty() { first } else { program };
    let interpreted = interpreter(program).and_then(|options| script(&evidence.arguments, options));
    let name = interpreted.unwrap_or(program);
    (!name.is_empty()).then(|| name.to_owned())
}

fn interpreter(program: &str) -> Option<&'static [&'static str]> {
    let found = INTERPRETERS.iter().find(|(name, _)| {
        // `python3.11` is one, `javac` is none.
        let version = program.strip_prefix(name);
        version.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
    });
    found.map(|(_, options)| *options)
}

/// What the interpreter runs, none for one that reads its program from elsewhere.
fn script<'a>(arguments: &'a [String], with_value: &[&str]) -> Option<&'a str> {
    let mut arguments = arguments.iter().skip(1).map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            // A module, or an archive: the name is the next argument.
            "-m" | "--module" => return arguments.next().map(|name| first_part(name, '/')),
            "-jar" => return arguments.next().map(|path| without_ending(base_name(path))),
            // A program in the arguments has no name, and may hold a secret.
            "-c" | "-e" | "--eval" | "-p" | "--print" | "-r" | "-E"
                if !with_value.contains(&argument) =>
            {
                return None;
            }
            "-" => return None,
            "--" => return arguments.next().map(|path| without_ending(base_name(path))),
            option if with_value.contains(&option) => {
                arguments.next();
            }
            option if option.starts_with('-') => {}
            path => return Some(without_ending(base_name(path))),
        }
    }
    None
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn first_part(name: &str, separator: char) -> &str {
    name.split(separator).next().unwrap_or(name)
}

/// `app.py` is called `app`; `org.example.Main`, a class, is called `Main`, its last part.
fn without_ending(name: &str) -> &str {
    const ENDINGS: [&str; 10] = [
        ".py", ".pyc", ".jar", ".js", ".mjs", ".cjs", ".rb", ".pl", ".php", ".sh",
    ];
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    match stem {
        Some(stem) if !stem.is_empty() => stem,
        _ => name
            .rsplit('.')
            .next()
            .filter(|last| !last.is_empty())
            .map_or(name, |last| {
                // A class starts with a capital letter; other names keep their dots.
                if last.starts_with(|c: char| c.is_ascii_uppercase()) {
                    last
                } else {
                    name
                }
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(executable: &str, command_line: &str) -> Option<String> {
        name(&Evidence {
            executable: executable.to_owned(),
            arguments: command_line.split_whitespace().map(str::to_owned).collect(),
            ..Evidence::default()
        })
    }

    #[test]
    fn programs_are_called_by_their_executable() {
        for (executable, command_line, expected) in [
            ("/usr/sbin/nginx", "nginx: worker process", "nginx"),
            ("/opt/app/server (deleted)", "x", "server"),
            ("", "/bin/sleep 1", "sleep"),
            ("/usr/bin/javac", "javac A.java", "javac"),
            (
                "/usr/bin/node_exporter",
                "node_exporter --x",
                "node_exporter",
            ),
        ] {
            assert_eq!(
                named(executable, command_line).as_deref(),
                Some(expected),
                "{executable}"
            );
        }
        assert_eq!(named("", ""), None);
    }

    #[test]
    fn interpreters_are_called_by_what_they_run() {
        for (executable, command_line, expected) in [
            ("/usr/bin/python3.11", "python3 -u /srv/app.py --x y", "app"),
            (
                "/usr/bin/python3.11",
                "python3 -W ignore -m gunicorn app:wsgi",
                "gunicorn",
            ),
            ("/usr/bin/python3.11", "python3 -c print(1)", "python3.11"),
            ("/usr/bin/python3.11", "python3", "python3.11"),
            (
                "/usr/lib/jvm/bin/java",
                "java -Xmx1g -cp a:b org.example.Main x",
                "Main",
            ),
            (
                "/usr/lib/jvm/bin/java",
                "java -jar /srv/shop-1.2.jar",
                "shop-1.2",
            ),
            (
                "/usr/lib/jvm/bin/java",
                "java --module shop/org.example.Main",
                "shop",
            ),
            (
                "/usr/bin/node",
                "node --require ./trace.js server.mjs",
                "server",
            ),
            ("/usr/bin/node", "node -e secret()", "node"),
            ("/usr/bin/bash", "/bin/bash ./run.sh", "run"),
            ("/usr/bin/dash", "sh -c x", "dash"),
            ("/usr/bin/ruby3.1", "ruby -r json my.tool", "my.tool"),
        ] {
            assert_eq!(
                named(executable, command_line).as_deref(),
                Some(expected),
                "{command_line}"
            );
        }
    }
}
