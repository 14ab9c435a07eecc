//! Makes sure that an answer is S3's and that all of it came.
//!
//! The SDK reads XML up to where it ends, and takes a listing that was cut short, with a length that
//! was made to fit, or a page for people, for a listing of fewer objects. Nothing may seem absent
//! since something in between does not work.

use aws_sdk_s3::config::interceptors::AfterDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;

/// Fails the attempt when the answer is not whole.
#[derive(Debug)]
pub(super) struct WholeAnswers;

/// An answer that is none of S3's, or only the beginning of one.
#[derive(Debug, thiserror::Error)]
#[error("the answer to {operation} is no whole {element}")]
struct NotWhole {
    operation: &'static str,
    element: &'static str,
}

/// The operations whose answers say what exists or what was done, and the element that each is.
const ELEMENTS: &[(&str, &str)] = &[
    ("ListObjectsV2", "ListBucketResult"),
    ("ListMultipartUploads", "ListMultipartUploadsResult"),
    ("CreateMultipartUpload", "InitiateMultipartUploadResult"),
    ("CompleteMultipartUpload", "CompleteMultipartUploadResult"),
];

impl Intercept for WholeAnswers {
    fn name(&self) -> &'static str {
        "WholeAnswers"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // An error has its own word for it.
        if context.output_or_error().is_err() {
            return Ok(());
        }
        let name = bag.load::<Metadata>().map_or("", Metadata::name);
        let known = ELEMENTS.iter().find(|(operation, _)| *operation == name);
        let Some(&(operation, element)) = known else {
            return Ok(());
        };
        let body = context.response().body().bytes().unwrap_or_default();
        if is_whole(body, element) {
            return Ok(());
        }
        Err(NotWhole { operation, element }.into())
    }
}

/// Whether a document is that element from its beginning to its end.
fn is_whole(body: &[u8], element: &str) -> bool {
    let body = String::from_utf8_lossy(body);
    let body = body.trim();
    let declared = body.strip_prefix("<?xml");
    let body = declared.map_or(body, |rest| {
        rest.split_once("?>")
            .map_or("", |(_, rest)| rest)
            .trim_start()
    });
    let begins = body
        .strip_prefix('<')
        .and_then(|rest| rest.strip_prefix(element));
    begins.is_some_and(|rest| {
        rest.starts_with(['>', ' ', '/', '\n'])
            && (body.ends_with(&format!("</{element}>")) || is_empty_element(body))
    })
}

fn is_empty_element(body: &str) -> bool {
    body.ends_with("/>") && body.matches('<').count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_whole_with_its_first_and_its_last_tag() {
        let element = "ListBucketResult";
        for whole in [
            "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\"><Name>a</Name></ListBucketResult>\n",
            "<ListBucketResult></ListBucketResult>",
            "<ListBucketResult/>",
        ] {
            assert!(is_whole(whole.as_bytes(), element), "{whole}");
        }
        for other in [
            "",
            "<ListBucketResult><Name>a</Name>",
            "<ListBucketResult><Name/>",
            "<?xml version=\"1.0\"",
            "<!DOCTYPE html><html></html>",
            "<html>ListBucketResult</ListBucketResult>",
            "<ListBucketResultOfOthers></ListBucketResult>",
        ] {
            assert!(!is_whole(other.as_bytes(), element), "{other}");
        }
    }
}
