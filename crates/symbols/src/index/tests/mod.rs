//! Whole indexes: written from random models, read back, damaged, and compared with a plain walk
//! over the model.

mod damage;
mod models;
mod round_trip;
