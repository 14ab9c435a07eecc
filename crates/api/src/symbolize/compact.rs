//! The answer of `POST /symbolize` for programs: every string and every frame once.
//!
//! A profile of 50,000 addresses is a few MB so, not tens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{Frame, ModuleAnswer, ModuleStatus, Reason, SymbolizeAnswer};
use crate::quality::{Origin, Quality};

/// The media type to ask for with `Accept`.
pub const COMPACT_MEDIA_TYPE: &str = "application/vnd.unhex.compact+json";

/// Bit of a frame's flags: it was inlined into the next frame.
pub const FLAG_INLINED: u32 = 1;

/// The same as [`SymbolizeAnswer`], with one table of strings and one of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompactAnswer {
    /// Every string once.
    pub strings: Vec<String>,
    /// Every frame once.
    pub frames: Vec<CompactFrame>,
    /// One per module of the request, in its order.
    pub modules: Vec<CompactModule>,
}

/// One frame: function, linkage name and file (indexes into `strings`, or null), line, column, flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct CompactFrame(
    pub Option<u32>,
    pub Option<u32>,
    pub Option<u32>,
    pub u32,
    pub u32,
    pub u32,
);

/// What is known of one module and its addresses; fields as in [`ModuleAnswer`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompactModule {
    /// The identity as asked.
    pub build_id: String,
    /// Whether there are symbols, and if not, why.
    pub status: ModuleStatus,
    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When to ask again, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// How good the symbols are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// How the best debug file came into the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Which symbols answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// Per address the indexes of its frames, innermost first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<Vec<Vec<u32>>>,
    /// Per address the bytes from the entry of its outermost function, or null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offsets: Option<Vec<Option<u64>>>,
    /// Per address why it has no frames, or why they may be incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<Option<Reason>>>,
}

/// A compact answer whose indexes lead nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// A stack names a frame that is not there.
    #[error("frame {index} is beyond the {count} frames of the answer")]
    Frame {
        /// The index.
        index: u32,
        /// Frames there are.
        count: usize,
    },
    /// A frame names a string that is not there.
    #[error("string {index} is beyond the {count} strings of the answer")]
    String {
        /// The index.
        index: u32,
        /// Strings there are.
        count: usize,
    },
}

impl CompactAnswer {
    /// The same answer in the form that people read.
    ///
    /// # Errors
    /// If an index leads nowhere.
    pub fn expand(&self) -> Result<SymbolizeAnswer, ExpandError> {
        let modules = self.modules.iter().map(|module| self.expand_module(module));
        Ok(SymbolizeAnswer {
            modules: modules.collect::<Result<_, _>>()?,
        })
    }

    fn expand_module(&self, module: &CompactModule) -> Result<ModuleAnswer, ExpandError> {
        let offset = |at: usize| {
            module
                .offsets
                .as_ref()
                .and_then(|all| all.get(at).copied()?)
        };
        let frames = module.stacks.as_ref().map(|stacks| {
            let stacks = stacks.iter().enumerate();
            stacks
                .map(|(at, stack)| self.expand_stack(stack, offset(at)))
                .collect::<Result<Vec<_>, _>>()
        });
        Ok(ModuleAnswer {
            build_id: module.build_id.clone(),
            status: module.status,
            detail: module.detail.clone(),
            retry_after_seconds: module.retry_after_seconds,
            quality: module.quality,
            origin: module.origin,
            generation: module.generation.clone(),
            frames: frames.transpose()?,
            reasons: module.reasons.clone(),
        })
    }

    fn expand_stack(&self, stack: &[u32], offset: Option<u64>) -> Result<Vec<Frame>, ExpandError> {
        let mut frames = stack
            .iter()
            .map(|index| self.expand_frame(*index))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(outermost) = frames.last_mut() {
            outermost.offset = offset;
        }
        Ok(frames)
    }

    fn expand_frame(&self, index: u32) -> Result<Frame, ExpandError> {
        let CompactFrame(function, linkage_name, file, line, column, flags) =
            at(&self.frames, index).ok_or(ExpandError::Frame {
                index,
                count: self.frames.len(),
            })?;
        Ok(Frame {
            function: self.string(*function)?,
            linkage_name: self.string(*linkage_name)?,
            file: self.string(*file)?,
            line: *line,
            column: *column,
            inlined: flags & FLAG_INLINED != 0,
            offset: None,
        })
    }

    fn string(&self, index: Option<u32>) -> Result<Option<String>, ExpandError> {
        let Some(index) = index else { return Ok(None) };
        let text = at(&self.strings, index).ok_or(ExpandError::String {
            index,
            count: self.strings.len(),
        })?;
        Ok(Some(text.clone()))
    }
}

fn at<T>(items: &[T], index: u32) -> Option<&T> {
    items.get(usize::try_from(index).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"strings":["inner","_Z5innerv","/src/in.c","outer"],"frames":[[0,1,2,3,7,1],[3,null,2,8,0,0]],"modules":[{"build_id":"9a0f","status":"found","generation":"5eed","stacks":[[0,1],[]],"offsets":[21,null],"reasons":[null,"no_function"]}]}"#;

    #[test]
    fn a_compact_answer_says_the_same_as_the_long_one() {
        let compact: CompactAnswer = serde_json::from_str(TEXT).unwrap();
        assert_eq!(serde_json::to_string(&compact).unwrap(), TEXT);
        let long = serde_json::to_string(&compact.expand().unwrap()).unwrap();
        let expected = r#"{"modules":[{"build_id":"9a0f","status":"found","generation":"5eed","frames":[[{"function":"inner","linkage_name":"_Z5innerv","file":"/src/in.c","line":3,"column":7,"inlined":true},{"function":"outer","file":"/src/in.c","line":8,"offset":21}],[]],"reasons":[null,"no_function"]}]}"#;
        assert_eq!(long, expected);
    }

    #[test]
    fn an_index_that_leads_nowhere_is_an_error() {
        let mut compact: CompactAnswer = serde_json::from_str(TEXT).unwrap();
        compact.strings.truncate(2);
        let error = compact.expand().unwrap_err();
        assert_eq!(error, ExpandError::String { index: 2, count: 2 });
    }
}
