import CBluetoothLinux
import Glibc

/// A detached thread of our own, outside Swift's cooperative pool, which must not block.
package enum SystemThread {
  private final class Body {
    let name: String
    let run: @Sendable () -> Void
    init(name: String, run: @escaping @Sendable () -> Void) {
      self.name = name
      self.run = run
    }
  }

  /// - Parameter name: at most 15 characters are kept by the kernel.
  package static func start(
    named name: String, _ run: @escaping @Sendable () -> Void
  ) throws(SystemError) {
    let body = Body(name: name, run: run)
    var thread = pthread_t()
    // SAFETY: the retained box passes its ownership to the new thread, which releases it.
    let opaque = unsafe Unmanaged.passRetained(body).toOpaque()
    let status = unsafe pthread_create(
      &thread, nil,
      { argument in
        // SAFETY: see above; `argument` is the box that was passed.
        let body = unsafe Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue()
        unsafe ringtap_thread_set_name(body.name)
        body.run()
        return nil
      }, opaque)
    guard status == 0 else {
      // SAFETY: no thread was made, so the box is still ours.
      unsafe Unmanaged<Body>.fromOpaque(opaque).release()
      throw SystemError(call: "pthread_create", number: status)
    }
    pthread_detach(thread)
  }
}
