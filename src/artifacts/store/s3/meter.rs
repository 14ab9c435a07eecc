//! Counts every request to the S3 server, the repeated ones too.

use std::sync::Arc;
use std::time::Instant;

use aws_sdk_s3::config::interceptors::{
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::retries::RequestAttempts;
use aws_smithy_types::config_bag::{Storable, StoreReplace};

use crate::metrics::{Metrics, S3Request};

/// Tells the metrics of each request.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) metrics: Arc<Metrics>,
}

/// When the current attempt began.
#[derive(Debug)]
struct Began(Instant);

impl Storable for Began {
    type Storer = StoreReplace<Self>;
}

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "Meter"
    }

    fn read_before_attempt(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        bag.interceptor_state().store_put(Began(Instant::now()));
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let attempts = bag.load::<RequestAttempts>().map(RequestAttempts::attempts);
        self.metrics.s3_answered(&S3Request {
            operation: bag.load::<Metadata>().map_or("", Metadata::name),
            status: context.response().map(|answer| answer.status().as_u16()),
            duration: bag
                .load::<Began>()
                .map(|began| began.0.elapsed())
                .unwrap_or_default(),
            is_retry: attempts.is_some_and(|attempts| attempts > 1),
        });
        Ok(())
    }
}
