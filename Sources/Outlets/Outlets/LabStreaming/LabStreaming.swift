import BLELinux
import BLEWire
import Synchronization

/// Recordings as streams of the Lab Streaming Layer, for receivers of this machine and of its network while they are recorded.
package final class LabStreaming: Sendable {
  /// What happened to it, for a person.
  package enum News: Sendable {
    /// There is no stream of this name.
    case unavailable(String)
    /// liblsl did not take some samples of a device.
    case refused(SampleDevice, samples: Int)
  }

  /// How long, in milliseconds, liblsl may send what was pushed last: what waits when a stream ends is lost, and it does not
  /// tell whether something does.
  private static let lingerMilliseconds = 250

  private let library: LSLLibrary
  private let news: @Sendable (News) -> Void
  private let devices = Mutex<[DeviceOutlets]>([])

  /// - Parameter news: called on the writer's thread.
  package init(news: @escaping @Sendable (News) -> Void) throws(NoLabStreaming) {
    library = try LSLLibrary()
    self.news = news
  }

  /// Where the samples of a device go in.
  package func output(of device: SampleDevice) -> any SampleOutput {
    let outlets = DeviceOutlets(device, library, news: news)
    devices.withLock { $0.append(outlets) }
    return outlets
  }

  /// Lets receivers have what was pushed last, and ends the streams. Nothing may come any more.
  package func finish() async {
    let devices = devices.withLock { devices in
      defer { devices = [] }
      return devices
    }
    let isOver = OneShot<Void>()
    // Each stream's end takes a while.
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
