//! What is wrong in the bucket is mended by uploading again, though this server has it on its disk.

use reqwest::StatusCode;
use unhex_testkit::s3_server::S3Server;

use crate::artifacts_backends::bucket_config;
use crate::calls::{answer, get, program, put};
use crate::server::TestServer;

/// What somebody did to every blob of a bucket.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Removed,
    Flipped,
}

impl Harm {
    fn do_to(self, s3: &S3Server, bucket: &str, bytes: &[u8]) {
        let objects = s3.objects(bucket).into_iter();
        let blobs: Vec<String> = objects
            .map(|(key, _)| key)
            .filter(|key| key.contains("/blob/"))
            .collect();
        assert!(!blobs.is_empty());
        for key in blobs {
            match self {
                Self::Removed => assert_eq!(s3.request("DELETE", &format!("{bucket}/{key}")), 204),
                Self::Flipped => s3.put(bucket, &key, bytes),
            }
        }
    }
}

#[tokio::test]
async fn a_file_that_the_bucket_lost_is_stored_again_by_whoever_still_has_it_on_the_disk() {
    let Some(s3) = S3Server::shared() else {
        return;
    };
    for harm in [Harm::Removed, Harm::Flipped] {
        let bucket = s3.bucket();
        let config = bucket_config(&bucket, s3.endpoint());
        let start = || TestServer::start_with(|settings| settings.s3 = Some(config.clone()));
        let program = program();
        let (path, file) = (
            format!("/buildid/{}/debuginfo", program.build_id()),
            program.bytes(),
        );
        let warm = start().await;
        let (status, said) = answer(put(&warm, &path, file.clone())).await;
        assert_eq!(status, StatusCode::CREATED, "{said}");
        let mut flipped = file.clone();
        flipped[file.len() / 2] ^= 1;
        harm.do_to(s3, &bucket, &flipped);

        let (status, said) = answer(put(&warm, &path, file.clone())).await;
        assert!(status.is_success(), "{harm:?}: {said}");
        let cold = start().await;
        let found = get(&cold, &path).await;
        assert!(found == (StatusCode::OK, file), "{harm:?}: {}", found.0);
    }
}
