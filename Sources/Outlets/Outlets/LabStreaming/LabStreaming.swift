import BLELinux
import BLEWire
import Synchronization

/// Publishes recordings as live streams of the Lab Streaming Layer, for receivers on this machine and its
/// network.
package final class LabStreaming: Sendable {
  /// Events to report to the user.
  package enum News: Sendable {
    /// The stream with this name could not be created.
    case unavailable(String)
    /// liblsl rejected some samples of a device.
    case refused(SampleDevice, samples: Int)
  }

  /// How long liblsl gets to send the last samples, in milliseconds. Samples that are queued when a stream
  /// ends are lost, and liblsl does not report whether any are queued.
  private static let lingerMilliseconds = 250

  private let library: LSLLibrary
  private let news: @Sendable (News) -> Void
  private let devices = Mutex<[DeviceOutlets]>([])

  /// - Parameter news: called on the thread that writes the recording's files.
  package init(news: @escaping @Sendable (News) -> Void) throws(NoLabStreaming) {
    library = try LSLLibrary()
    self.news = news
  }

  /// Returns an output for the samples of a device.
  package func output(of device: SampleDevice) -> any SampleOutput {
    let outlets = DeviceOutlets(device, library, news: news)
    devices.withLock { $0.append(outlets) }
    return outlets
  }

  /// Waits until the last samples are sent, then ends the streams. No samples may be pushed after this call.
  package func finish() async {
    let devices = devices.withLock { devices in
      defer { devices = [] }
      return devices
    }
    let isOver = OneShot<Void>()
    // Ending a stream takes a while, so it runs on its own thread.
    let isStarted: Void? = try? SystemThread.start(named: "ringtap-lsl-end") {
      if devices.contains(where: \.mayBeSending), let wake = try? WakeEvent() {
        wake.pause(milliseconds: Self.lingerMilliseconds)
      }
      for device in devices { device.close() }
      isOver.set(())
    }
    if isStarted != nil { await isOver.value() }
  }
}
