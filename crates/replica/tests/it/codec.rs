//! Bytes of an order: golden, round trip, and every damage refused or recognised.

use anabranch_log::{Digest, SessionId, WriteId};
use anabranch_replica::{EntryKind, MAX_BATCH, MAX_ENTRY_BYTES, MalformedOrder, Order};
use proptest::prelude::*;

fn record(session: u64, seq: u64, attempt: u32, byte: u8) -> (WriteId, Digest) {
    (WriteId { session: SessionId(session), seq, attempt }, Digest([byte; 32]))
}

#[test]
fn golden_bytes() {
    let order = Order::Records(vec![record(0x0102, 3, 4, 0xaa), record(u64::MAX, 0, 0, 0)]);
    let mut expected = vec![1, 2, 0, 0, 0];
    expected.extend([2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]);
    expected.extend([0xaa; 32]);
    expected.extend([0xff; 8]);
    expected.extend([0; 12 + 32]);
    assert_eq!(order.encode(), expected);
    assert_eq!(Order::decode(EntryKind::Records, &expected), Ok(order));
    assert_eq!(Order::Noop.encode(), Vec::<u8>::new());
    assert_eq!(EntryKind::Noop.code(), 0);
    assert_eq!(EntryKind::Records.code(), 1);
    assert_eq!(EntryKind::from_code(2), None);
}

#[test]
fn every_truncation_and_extension_is_refused() {
    let bytes = Order::Records(vec![record(1, 2, 3, 4), record(5, 6, 7, 8)]).encode();
    for length in 0..bytes.len() {
        assert!(Order::decode(EntryKind::Records, &bytes[..length]).is_err(), "length {length}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(Order::decode(EntryKind::Records, &longer), Err(MalformedOrder::Length));
    assert_eq!(Order::decode(EntryKind::Noop, &bytes), Err(MalformedOrder::NoopWithData));
}

#[test]
fn every_flipped_bit_is_refused_or_decodes_to_something_else() {
    let order = Order::Records(vec![record(1, 2, 3, 4), record(5, 6, 7, 8)]);
    let bytes = order.encode();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let decoded = Order::decode(EntryKind::Records, &damaged);
        assert_ne!(decoded.as_ref(), Ok(&order), "bit {bit}");
        let is_header = bit < 5 * 8;
        assert_eq!(decoded.is_err(), is_header, "bit {bit}");
    }
}

#[test]
fn the_batch_limit_is_exact() {
    let records = vec![record(1, 2, 3, 4); MAX_BATCH];
    let bytes = Order::Records(records.clone()).encode();
    assert_eq!(bytes.len(), MAX_ENTRY_BYTES);
    assert_eq!(Order::decode(EntryKind::Records, &bytes), Ok(Order::Records(records)));
    for count in [0, u32::try_from(MAX_BATCH).unwrap() + 1, u32::MAX] {
        let mut bytes = vec![1];
        bytes.extend(count.to_le_bytes());
        bytes.resize(MAX_ENTRY_BYTES + 52, 0);
        let decoded = Order::decode(EntryKind::Records, &bytes);
        assert_eq!(decoded, Err(MalformedOrder::Count(count)));
    }
}

#[test]
#[should_panic(expected = "at most 1024 records")]
fn a_larger_batch_is_a_bug() {
    let _ = Order::Records(vec![record(1, 2, 3, 4); MAX_BATCH + 1]).encode();
}

proptest! {
    #[test]
    fn round_trip(records in prop::collection::vec(
        (any::<u64>(), any::<u64>(), any::<u32>(), any::<[u8; 32]>()), 1..40)) {
        let records = records.into_iter().map(|(session, seq, attempt, digest)| {
            (WriteId { session: SessionId(session), seq, attempt }, Digest(digest))
        });
        let order = Order::Records(records.collect());
        prop_assert_eq!(Order::decode(order.kind(), &order.encode()), Ok(order));
    }

    #[test]
    fn arbitrary_bytes_decode_to_their_own_encoding_or_not_at_all(
        bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(order) = Order::decode(EntryKind::Records, &bytes) {
            prop_assert_eq!(order.encode(), bytes);
        }
    }
}
