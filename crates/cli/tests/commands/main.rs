//! The commands that need no cluster, from a user's point of view. `new` runs cargo by its path, so they need Unix.

#![cfg(unix)]

mod about;
mod book;
mod generate;
mod new;
