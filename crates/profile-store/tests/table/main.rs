//! The profile table: by example, in every interleaving of a few writes, and in a simulation of replicas
//! that see each other late.

#![cfg(test)]

mod dictionary;
mod fold;
mod interleavings;
mod objects;
mod plan;
mod rule;
mod simulation;
mod store;
mod sweep;
