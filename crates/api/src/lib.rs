//! Wire types and the error table shared by server and client.
