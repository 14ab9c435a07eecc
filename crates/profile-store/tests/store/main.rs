//! The profile store over real stores: a folder and an S3 server.

#![cfg(test)]

mod backends;
mod dictionary;
mod files;
mod objects;
mod symbol_server;
mod symbols;
