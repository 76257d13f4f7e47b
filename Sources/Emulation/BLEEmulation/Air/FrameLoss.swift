import BLEWire

/// Reason why a peripheral's frame was lost. Accounts for every frame.
package enum FrameLoss: Hashable, Sendable {
  /// An L2CAP frame that was still queued in the peripheral when its link ended.
  case linkEnd
  /// An ACL packet that had reached a silent controller.
  case silentController
}

extension AirLink {
  /// Reports frames that an end has queued and the other end has not received completely.
  ///
  /// The first frame may have arrived without its acknowledgement. Core 5.4, Vol 6, Part B, 4.5.9.
  func giveUpFrames(of end: LinkEnd) {
    guard let told = air.whenFrameLost else { return }
    var hasArrived = false
    if case .data(let octets, _)? = end.queue.first, let underWay = end.state.underWay {
      hasArrived =
        end.queue.offset + underWay == octets.count && other(end).state.expected != end.state.sequence
    }
    end.queue.forEachFrame { octets in
      if hasArrived { hasArrived = false } else { told(.linkEnd, octets.span) }
    }
  }
}
