//! Requests in process: the server as its clients see it.

mod api;
mod custom;
mod deletion;
mod reads;
mod watches;
mod writes;
