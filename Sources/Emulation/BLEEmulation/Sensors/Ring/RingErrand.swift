import BLEWire

/// An action that a ring performs by itself after connecting.
struct RingErrand {
  enum Action {
    case requestMTU
    case requestParameters(ClosedRange<UInt16>)
  }

  let due: MonotonicTime
  let action: Action
}
