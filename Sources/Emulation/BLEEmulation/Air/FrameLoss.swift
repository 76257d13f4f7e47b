import BLEWire

/// Where a frame of a peripheral came to nothing, for whoever keeps account of each.
package enum FrameLoss: Hashable, Sendable {
  /// It waited in the peripheral when its link ended: an L2CAP frame.
  case linkEnd
  /// It had arrived at a controller that says nothing any more: an ACL packet.
  case silentController
}

extension AirLink {
  /// Tells of frames that an end has sent and the other has not got as a whole.
  ///
  /// The first may be there already, and only its acknowledgement missing. Core 5.4, Vol 6, Part B, 4.5.9.
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
