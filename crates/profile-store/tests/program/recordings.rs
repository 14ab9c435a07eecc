//! A recording of `perf`, made a pprof by Google's library as their converter does it, comes out with the totals that went in.

use std::path::Path;
use std::process::Command;

use unhex_testkit::{run, tools};

use crate::asked::json;
use crate::in_and_out::assert_totals_come_out;
use crate::store;

const C_SOURCE: &str = r"
volatile double sink;
__attribute__((noinline)) void work(int n) { for (int i = 0; i < n; i++) sink += i * 1.5; }
__attribute__((noinline)) void outer(void) { for (int i = 0; i < 1500; i++) work(100000); }
int main(void) { outer(); return 0; }
";

/// `perf script` to a pprof: types of samples, mappings with build IDs, addresses of the process and names, as `perf_to_profile` has them.
const GO_SOURCE: &str = r#"package main

import (
	"bufio"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

var mapped = regexp.MustCompile(`PERF_RECORD_MMAP2 -?\d+/\d+: \[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (?:0x)?([0-9a-f]+) (?:<([0-9a-f]+)>|[^\]]*)\]: \S+ (.+)$`)
var sampled = regexp.MustCompile(`^\S.*\s(\d+)/(\d+)\s+\d+\.\d+:\s+(\d+)\s+(\S+):\s*$`)
var called = regexp.MustCompile(`^\s+([0-9a-f]+) (.+) \((.*)\)$`)

func hex(text string) uint64 {
	number, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		panic(err)
	}
	return number
}

func main() {
	made := &profile.Profile{TimeNanos: 0, Period: 1}
	locations := map[string]*profile.Location{}
	functions := map[string]*profile.Function{}
	var current *profile.Sample
	script, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(script)
	for lines.Scan() {
		line := lines.Text()
		if found := mapped.FindStringSubmatch(line); found != nil {
			start := hex(found[1])
			made.Mapping = append(made.Mapping, &profile.Mapping{
				ID: uint64(len(made.Mapping) + 1), Start: start, Limit: start + hex(found[2]),
				Offset: hex(found[3]), BuildID: found[4], File: found[5],
			})
		} else if found := sampled.FindStringSubmatch(line); found != nil {
			period, _ := strconv.ParseInt(found[3], 10, 64)
			if made.SampleType == nil {
				made.SampleType = []*profile.ValueType{
					{Type: found[4] + "_sample", Unit: "count"}, {Type: found[4] + "_event", Unit: "count"},
				}
				made.PeriodType = made.SampleType[1]
			}
			current = &profile.Sample{Value: []int64{1, period}, Label: map[string][]string{"thread": {found[2]}}}
			made.Sample = append(made.Sample, current)
		} else if found := called.FindStringSubmatch(line); found != nil && current != nil {
			key := found[1] + found[3]
			location := locations[key]
			if location == nil {
				location = &profile.Location{ID: uint64(len(locations) + 1), Address: hex(found[1])}
				for _, mapping := range made.Mapping {
					// perf script has file offsets where it knows the mapping.
					address := location.Address - mapping.Offset + mapping.Start
					if mapping.File == found[3] && mapping.Start <= address && address < mapping.Limit {
						location.Mapping, location.Address = mapping, address
						break
					}
				}
				if name := found[2]; !strings.HasPrefix(name, "[unknown]") {
					function := functions[name]
					if function == nil {
						function = &profile.Function{ID: uint64(len(functions) + 1), Name: name, SystemName: name}
						functions[name] = function
						made.Function = append(made.Function, function)
					}
					location.Line = []profile.Line{{Function: function}}
				}
				locations[key] = location
				made.Location = append(made.Location, location)
			}
			current.Location = append(current.Location, location)
		}
	}
	if err := made.CheckValid(); err != nil {
		panic(err)
	}
	file, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	if err := made.Write(file); err != nil {
		panic(err)
	}
	file.Close()
}
"#;

fn in_folder(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    command
}

#[test]
fn a_recording_of_perf_comes_out_with_equal_totals() {
    let needed = [tools::GO, tools::GO_PPROF, tools::PERF, tools::GCC];
    if needed.iter().any(|tool| tool.find().is_none()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("spin.c"), C_SOURCE).expect("a source");
    std::fs::write(path("main.go"), GO_SOURCE).expect("a source");
    let mut compile = in_folder("gcc", folder.path());
    compile.args(["-O1", "-fno-omit-frame-pointer", "-Wl,--build-id=sha1"]);
    run::succeed(compile.args(["-o", "spin", "spin.c"]));
    let mut record = in_folder("perf", folder.path());
    record.args(["record", "-q", "-e", "cpu-clock:u", "-F", "999"]);
    record.args(["--call-graph", "fp", "--buildid-mmap", "-o", "perf.data"]);
    run::succeed(record.args(["--", "./spin"]));
    let mut script = in_folder("perf", folder.path());
    script.args(["script", "-i", "perf.data", "--show-mmap-events", "-F"]);
    let said = run::succeed(script.arg("comm,pid,tid,time,period,event,ip,sym,dso"));
    std::fs::write(path("script.txt"), &said.stdout).expect("written");
    let mut convert = in_folder("go", folder.path());
    convert
        .env("GO111MODULE", "off")
        .env("GOPATH", "/usr/share/gocode")
        .env("GOCACHE", path("cache"));
    run::succeed(convert.args(["run", "main.go", "script.txt", "perf.pprof"]));
    let bytes = std::fs::read(path("perf.pprof")).expect("a profile");
    let script = std::fs::read_to_string(path("script.txt")).expect("text");
    assert!(script.contains("work ("), "{script}");
    let server = store(&[]);
    let totals = assert_totals_come_out(&server, "perf", &bytes);
    // 150 million turns take more than a twentieth of a second.
    assert!(totals[0] > 50 && totals[1] > 50_000_000, "{totals:?}");
    // Native frames are kept as places of the binary with that build ID: their names come from the symbol server.
    let selector = "query=%7Bservice%3D%22perf%22%7D&type=cpu-clock_u_event:count";
    let top = json(&server, &format!("/query/top?{selector}"));
    let first = top["functions"][0].clone();
    let function = first["function"].as_str().unwrap_or_default();
    assert!(function.starts_with("spin@0x"), "{top}");
    assert_eq!(first["kind"], "unresolved", "{top}");
}
