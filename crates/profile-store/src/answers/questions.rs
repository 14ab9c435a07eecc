//! The parameters of `/query/*`: the handlers read them, the command line writes them, openapi.yaml describes them.
//!
//! All are optional. Times are RFC 3339 or seconds since 1970; a window without an end ends now, one without a beginning is an hour long. Lists have
//! commas. A text for functions and binaries is one name exactly, or, behind `~`, a regular expression that is found anywhere in a name.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

/// A question: the parameters that all have, and its own.
macro_rules! question {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            /// Whose: a selector as in Prometheus, `{service="checkout",version=~"2.*"}`. Everything if there is none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub query: Option<String>,
            /// The first moment, RFC 3339 or seconds since 1970. An hour before the end if it is not given.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub from: Option<String>,
            /// The first moment after the window. Now if it is not given.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub to: Option<String>,
            $(
                $(#[$field_doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<String>,
            )*
        }
    };
}

question! {
    /// `GET /query/labels`: the names of labels, or the values of one.
    LabelsQuestion {
        /// The label whose values are wanted.
        label,
        /// How many values at most.
        limit,
    }
}

question! {
    /// `GET /query/series`: lines over time.
    SeriesQuestion {
        /// What is counted: `cpu`, or a type as in `/query/labels`.
        #[serde(rename = "type")]
        profile_type,
        /// The labels that lines are made by, with commas.
        group_by,
        /// Seconds from one point to the next, at least 60. Chosen by the length of the window if it is not given.
        step,
        /// The function whose total the lines are.
        function,
        /// The binary that the function, or any, is in: its file name or build ID.
        binary,
        /// How many lines at most.
        limit,
    }
}

question! {
    /// `GET /query/profile`: a merged profile.
    ProfileQuestion {
        /// What is counted: `cpu`, or a type as in `/query/labels`.
        #[serde(rename = "type")]
        profile_type,
        /// `json` (a flame graph, the default), `pprof`, `folded`, `svg` or `speedscope`.
        format,
        /// Nodes of the flame graph at most; what is cut keeps the totals.
        max_nodes,
        /// Stacks with this function only.
        function,
        /// Stacks with a frame in this binary only: its file name or build ID.
        binary,
    }
}

question! {
    /// `GET /query/top`: the functions with the most.
    TopQuestion {
        /// What is counted: `cpu`, or a type as in `/query/labels`.
        #[serde(rename = "type")]
        profile_type,
        /// What is listed: `function` (the default), `file` or `binary`.
        by,
        /// By what it is in order: `self` (the default) or `total`.
        order,
        /// How many at most.
        limit,
        /// Stacks with this function only.
        function,
        /// Stacks with a frame in this binary only: its file name or build ID.
        binary,
    }
}

question! {
    /// `GET /query/coverage`: how much of the CPU time has its names, and why the rest has not.
    CoverageQuestion {
        /// What rows are made by: any of `service`, `version`, `deployment` and `binary`, with commas. All of them if it is not given.
        group_by,
        /// Seconds of a step, if rows are to be made by time, too; at least 60.
        step,
        /// How many rows at most.
        limit,
    }
}

question! {
    /// `GET /query/segments`: what lies in the store, by hour. The selector is not looked at.
    SegmentsQuestion {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_only_its_own_parameters() {
        let read = |text: &str| serde_json::from_str::<TopQuestion>(text);
        let question = read(r#"{"query":"{}","type":"cpu","limit":"5"}"#).unwrap();
        assert_eq!(question.profile_type.as_deref(), Some("cpu"));
        let text = serde_json::to_string(&question).unwrap();
        assert_eq!(text, r#"{"query":"{}","type":"cpu","limit":"5"}"#);
        assert!(read(r#"{"format":"svg"}"#).is_err());
    }
}
