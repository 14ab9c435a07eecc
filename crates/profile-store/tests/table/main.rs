//! The profile table by example: its fold, what is planned, what is swept.

#![cfg(test)]

mod fold;
mod objects;
mod plan;
mod sweep;
