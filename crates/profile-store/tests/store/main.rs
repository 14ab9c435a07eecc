//! The profile store over real stores: a folder and an S3 server.

#![cfg(test)]

mod asked;
mod backends;
mod compaction;
mod crashes;
mod dictionaries;
mod dictionary;
mod engine;
mod export;
mod files;
mod fleet;
mod ingested;
mod numbered;
mod objects;
mod queries;
mod readers;
mod reading;
mod replicas;
mod symbol_server;
mod symbols;
mod watched;
