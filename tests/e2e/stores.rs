//! The stores that a server may have, each of which passes every test here.

use unhex_testkit::s3_server::S3Server;
use unhex_testkit::server::{Home, Server};

use crate::symbol_server::UNHEX;

/// Where a server keeps what was uploaded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    /// Its data folder.
    Folder,
    /// A bucket of a real S3 server.
    Bucket,
}

/// Makes a module of tests for each store out of functions that take one.
macro_rules! on_every_store {
    ($($test:ident),+ $(,)?) => {
        mod folder {
            $(
                #[test]
                fn $test() {
                    super::$test($crate::stores::Store::Folder);
                }
            )+
        }

        mod s3 {
            $(
                #[test]
                fn $test() {
                    super::$test($crate::stores::Store::Bucket);
                }
            )+
        }
    };
}

pub(crate) use on_every_store;

impl Store {
    /// A server over an empty store; `None` when what it needs is missing.
    pub(crate) fn server(self) -> Option<Server> {
        match self {
            Self::Folder => Some(Server::start(UNHEX)),
            Self::Bucket => {
                let s3 = S3Server::shared()?;
                Some(server_over(s3, &format!("s3://{}/symbols", s3.bucket())))
            }
        }
    }
}

/// A server with an empty data folder over a bucket that may have something.
pub(crate) fn server_over(s3: &S3Server, bucket: &str) -> Server {
    server_over_with(s3, bucket, &[])
}

/// The same, with more arguments of `unhex serve`.
pub(crate) fn server_over_with(s3: &S3Server, bucket: &str, arguments: &[&str]) -> Server {
    let home = Home::new().with_environment(s3.environment());
    Server::start_in(home, UNHEX, &[&["--s3", bucket], arguments].concat())
}
