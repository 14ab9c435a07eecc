//! Numbers for strings, functions and places in tables, given in the order of first use; for both writers.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::model::{Profiles, StringId};
use crate::wire::{Tag, Writer};

/// Strings by number.
///
/// Each string of the model is compared by its text once, however often it is used: a message may use one long string millions
/// of times.
#[derive(Debug)]
pub(crate) struct Strings<'m> {
    numbers: HashMap<Cow<'m, str>, u64>,
    order: Vec<Cow<'m, str>>,
    /// The numbers of the model's strings, by their place there.
    of_model: Vec<Option<u64>>,
    /// A second empty string, for labels whose text is empty: number 0 would mean that they have none.
    empty_text: Option<u64>,
}

impl<'m> Strings<'m> {
    pub(crate) fn of(model: &Profiles<'_>) -> Self {
        Self {
            numbers: HashMap::from([(Cow::Borrowed(""), 0)]),
            order: vec![Cow::Borrowed("")],
            of_model: vec![None; model.strings.len()],
            empty_text: None,
        }
    }

    /// The number of a string of the model.
    pub(crate) fn number(&mut self, model: &'m Profiles<'_>, id: StringId) -> u64 {
        if let Some(Some(number)) = self.of_model.get(id.index()) {
            return *number;
        }
        let number = self.number_of_text(model.text(id));
        if let Some(place) = self.of_model.get_mut(id.index()) {
            *place = Some(number);
        }
        number
    }

    /// The number of any other text.
    pub(crate) fn number_of_text(&mut self, text: impl Into<Cow<'m, str>>) -> u64 {
        let text = text.into();
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        let number = self.order.len() as u64;
        self.order.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// The number for a label whose text has this number: never 0.
    pub(crate) fn label_text(&mut self, number: u64) -> u64 {
        if number != 0 {
            return number;
        }
        let next = self.order.len() as u64;
        let number = *self.empty_text.get_or_insert(next);
        if number == next {
            self.order.push(Cow::Borrowed(""));
        }
        number
    }

    /// Writes the table as a repeated field.
    pub(crate) fn write(&self, tag: Tag, out: &mut Writer) {
        for text in &self.order {
            out.bytes(tag, text.as_bytes());
        }
    }
}

/// Numbers from 1 for places in a table.
#[derive(Debug)]
pub(crate) struct Numbering {
    /// 0 for those without a number.
    numbers: Vec<u32>,
    order: Vec<u32>,
}

impl Numbering {
    pub(crate) fn of(length: usize) -> Self {
        Self {
            numbers: vec![0; length],
            order: Vec::new(),
        }
    }

    /// The number of a place, given now if it has none; 0 for places beyond the table.
    pub(crate) fn number(&mut self, place: u32) -> u64 {
        let Some(number) = self.numbers.get_mut(place as usize) else {
            return 0;
        };
        if *number == 0 {
            self.order.push(place);
            *number = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        }
        u64::from(*number)
    }

    /// The place that has the number after `index`.
    pub(crate) fn place(&self, index: usize) -> Option<u32> {
        self.order.get(index).copied()
    }
}

/// A function, in numbers of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionKey {
    pub(crate) name: u64,
    pub(crate) system_name: u64,
    pub(crate) file_name: u64,
    pub(crate) start_line: i64,
}

/// Functions by number, equal ones once.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    numbers: HashMap<FunctionKey, u64>,
    order: Vec<FunctionKey>,
}

impl Functions {
    pub(crate) fn number(&mut self, key: FunctionKey) -> u64 {
        let order = &mut self.order;
        *self.numbers.entry(key).or_insert_with(|| {
            order.push(key);
            order.len() as u64
        })
    }

    pub(crate) fn in_order(&self) -> &[FunctionKey] {
        &self.order
    }
}
