//! The stores that a test runs over: a folder of its own, and a bucket of its own where an S3 server can be had.

use unhex_profile_store::objects::{Objects, S3Credentials, S3Options};
use unhex_testkit::s3_server::S3Server;

/// Runs a test over a folder and over a bucket.
pub(crate) async fn over_each<F: Future<Output = ()>>(test: impl Fn(Objects) -> F) {
    let folder = tempfile::tempdir().expect("a folder");
    test(Objects::folder(folder.path()).expect("a table")).await;
    if let Some(server) = S3Server::shared() {
        let options = options(server, &format!("{}/some/prefix", server.bucket()));
        test(Objects::bucket(&options).await.expect("a bucket")).await;
    }
}

/// How to reach a place on the S3 server of the tests.
pub(crate) fn options(server: &S3Server, place: &str) -> S3Options {
    let mut options = S3Options::new(format!("s3://{place}").parse().expect("a URL"));
    options.endpoint = Some(server.endpoint().to_owned());
    options.region = Some("us-east-1".to_owned());
    options.credentials = Some(S3Credentials {
        access_key: S3Server::ACCESS_KEY.to_owned(),
        secret_key: S3Server::SECRET_KEY.to_owned(),
    });
    options
}
