//! Requests in process: the server as its clients see it.

mod access;
mod api;
mod custom;
mod deletion;
mod description;
mod reads;
mod tables;
mod watches;
mod writes;
