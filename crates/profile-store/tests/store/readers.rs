//! Other engines read the Delta log over S3 while rows come and are compacted, and see what was there at some commit. Needs Python packages: docs/scaling.md has
//! them and the command.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use unhex_profile_store::export::Exporter;
use unhex_profile_store::objects::Objects;
use unhex_testkit::repository::root;
use unhex_testkit::s3_server::S3Server;

use crate::backends::options;
use crate::fleet::{Now, at_once, replica, rows};
use crate::ingested::{minute, put};

/// Who reads.
const READERS: [&str; 4] = ["chdb", "duckdb", "deltalake", "dask"];

/// Readings of each while the table changes.
const READINGS: usize = 8;

const DEADLINE: Duration = Duration::from_mins(8);

/// Counts, and values.
type Totals = (i64, i64);

struct Readers {
    process: Child,
    said: Receiver<Value>,
}

impl Readers {
    fn start(server: &S3Server, bucket: &str) -> Self {
        let python = std::env::var("UNHEX_READERS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let mut process = Command::new(python)
            .arg(root().join("crates/profile-store/tests/readers/read.py"))
            .envs(server.environment())
            .env("ENDPOINT", server.endpoint())
            .env("BUCKET", bucket)
            .env("PREFIX", "table")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        let (say, said) = channel();
        std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            for line in lines.filter(|line| line.starts_with('{')) {
                let _nobody_listens = say.send(serde_json::from_str(&line).expect("JSON"));
            }
        });
        Self { process, said }
    }

    fn tell_to_end(&mut self) {
        let input = self.process.stdin.as_mut().expect("its input");
        input.write_all(b"last\n").expect("it reads");
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// What was heard of readings, by reader.
#[derive(Debug, Default)]
struct Heard {
    /// How many, and the last one.
    last: BTreeMap<String, (usize, Totals)>,
    seconds: BTreeMap<String, Vec<f64>>,
    /// Those that began when nothing changed any more.
    ended: BTreeMap<String, Totals>,
}

impl Heard {
    /// A reading, which has to be of a commit, and of none before the last one.
    fn hear(&mut self, said: &Value, commits: &[Totals]) {
        let name = said["reader"].as_str().unwrap().to_owned();
        let totals = totals(said);
        assert!(commits.contains(&totals), "{said} is of no commit");
        let (readings, before) = self.last.get(&name).copied().unwrap_or_default();
        assert!(totals >= before, "{said} after {before:?}");
        let seconds = said["seconds"].as_f64().unwrap();
        self.seconds.entry(name.clone()).or_default().push(seconds);
        self.last.insert(name.clone(), (readings + 1, totals));
        if said["is_last"] == true {
            self.ended.insert(name, totals);
        }
    }

    fn show(self) {
        for (name, mut seconds) in self.seconds {
            seconds.sort_by(f64::total_cmp);
            let (count, median) = (seconds.len(), seconds[seconds.len() / 2]);
            let longest = seconds[count - 1];
            println!("{name}: {count} readings, median {median} s, longest {longest} s");
        }
    }
}

fn totals(said: &Value) -> Totals {
    let number = |name: &str| said[name].as_i64().unwrap_or_else(|| panic!("{said}"));
    (number("count"), number("value"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python packages, see docs/scaling.md"]
async fn other_engines_read_the_sums_of_a_commit_while_the_table_is_compacted() {
    let server = S3Server::shared().expect("an S3 server");
    let bucket = server.bucket();
    let place = options(server, &format!("{bucket}/table"));
    let objects = Objects::bucket(&place).await.expect("a bucket");
    let now = Now::at(minute(60));
    let (maintenance, _spill) = replica(&objects, &now, at_once());
    let mut exporter = Exporter::new(objects.clone(), now.clock());
    let mut sums: Totals = (0, 0);
    // What a reader may see: the sums after each commit.
    let mut seen_by_commit = vec![sums];
    exporter.export_recent().await.unwrap();

    let mut readers = Readers::start(server, &bucket);
    let mut heard = Heard::default();
    let (began, mut segment, mut compacted, mut commits) = (Instant::now(), 0_u64, 0, 0);
    let mut is_ending = false;
    while heard.ended.len() < READERS.len() {
        assert!(began.elapsed() < DEADLINE, "{heard:?}");
        let status = readers.process.try_wait().unwrap();
        assert!(status.is_none_or(|status| status.success()), "{status:?}");
        if !is_ending {
            for _ in 0..3 {
                segment += 1;
                let rows = rows(segment, 500);
                let id = now.publish(u8::try_from(segment % 256).unwrap());
                put(&objects, id, &rows).await;
                sums.0 += rows.iter().map(|row| row.count).sum::<i64>();
                sums.1 += rows.iter().map(|row| row.count * row.period).sum::<i64>();
            }
            now.pass(1);
            seen_by_commit.push(sums);
            exporter.export_recent().await.unwrap();
            let maintaining = Arc::clone(&maintenance);
            let round = tokio::spawn(async move { maintaining.round_of_recent().await });
            compacted += round.await.unwrap().compacted;
            commits = exporter.export_recent().await.unwrap().version;
        }
        for said in readers.said.try_iter() {
            heard.hear(&said, &seen_by_commit);
        }
        let is_enough = |name: &str| heard.last.get(name).is_some_and(|of| of.0 >= READINGS);
        if !is_ending && READERS.iter().all(|name| is_enough(name)) {
            is_ending = true;
            readers.tell_to_end();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ended = &heard.ended;
    assert!(
        ended.values().all(|totals| *totals == sums),
        "{ended:?}, not {sums:?}"
    );
    assert!(compacted > 1, "{compacted} compactions");
    println!("{segment} segments, {compacted} compactions, {commits} commits, sums {sums:?}");
    heard.show();
}
