//! How requests to the S3 server are counted.

use std::time::Duration;

use super::Metrics;

/// One request to the S3 server that has been answered, or was not.
#[derive(Clone, Copy, Debug)]
pub struct S3Request<'a> {
    /// S3's name of the operation.
    pub operation: &'a str,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// Until the headers of the answer.
    pub duration: Duration,
    /// Whether it repeats one that failed.
    pub is_retry: bool,
}

/// What the store itself does again, beside the requests that the SDK repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum S3Repeat {
    /// Asking for a body that broke off, or was not what it had to be.
    Body,
    /// Putting an object in one request.
    PutObject,
    /// Sending a part of a file.
    UploadPart,
    /// Listing objects.
    ListObjects,
    /// Listing uploads in parts that were begun.
    ListUploads,
}

impl S3Repeat {
    fn as_str(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::PutObject => "put_object",
            Self::UploadPart => "upload_part",
            Self::ListObjects => "list_objects",
            Self::ListUploads => "list_uploads",
        }
    }
}

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the S3 server.
    Sent,
    /// From it.
    Received,
}

impl Metrics {
    /// Counts a request to the S3 server.
    pub fn s3_answered(&self, request: &S3Request<'_>) {
        let operation = operation(request.operation);
        let families = &self.families;
        families
            .s3_requests
            .with_label_values(&[operation, outcome(request.status)])
            .inc();
        families
            .s3_seconds
            .with_label_values(&[operation])
            .observe(request.duration.as_secs_f64());
        if request.is_retry {
            families.s3_retries.with_label_values(&[operation]).inc();
        }
    }

    /// Counts bytes of objects that were moved.
    pub fn s3_moved(&self, direction: Direction, bytes: usize) {
        let direction = match direction {
            Direction::Sent => "sent",
            Direction::Received => "received",
        };
        self.families
            .s3_bytes
            .with_label_values(&[direction])
            .inc_by(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Counts what failed and is done again.
    pub fn s3_repeats(&self, what: S3Repeat) {
        self.families
            .s3_retries
            .with_label_values(&[what.as_str()])
            .inc();
    }
}

/// The operations that are used, so that no other name becomes a label.
fn operation(name: &str) -> &'static str {
    match name {
        "PutObject" => "put_object",
        "GetObject" => "get_object",
        "HeadObject" => "head_object",
        "DeleteObject" => "delete_object",
        "ListObjectsV2" => "list_objects",
        "CreateMultipartUpload" => "create_upload",
        "UploadPart" => "upload_part",
        "CompleteMultipartUpload" => "complete_upload",
        "AbortMultipartUpload" => "abort_upload",
        "ListMultipartUploads" => "list_uploads",
        _ => "other",
    }
}

fn outcome(status: Option<u16>) -> &'static str {
    match status {
        Some(200..=299) => "ok",
        Some(404) => "absent",
        Some(412) => "exists",
        Some(429 | 503) => "throttled",
        Some(500..) => "failed",
        Some(_) => "refused",
        None => "unreachable",
    }
}
