package import BLELinux
import Glibc

/// A one-dimensional NumPy array that grows on disk (`.npy`, format 1.0) and opens at any moment.
///
/// The header takes a page from the start and says how many elements there are. Elements are appended first and claimed
/// afterwards, each by a system call of its own, so a process that is killed between the two leaves a file that is longer
/// than its header says. `numpy.load` opens such a file, also with `mmap_mode`, and refuses one that is shorter: here the
/// kernel always has what is claimed. The claim itself lies in one sector, which a disk writes whole or not at all.
///
/// A power failure is another matter: the disk must not get the header before the elements and the file's length. So `writeOut`
/// hands it the elements alone, whose pages are others than the header's; then another file's `sync` has the file system note the
/// lengths of all; and `sync`, which hands it the header, is the last. What the kernel writes by itself, after half a minute,
/// comes in no such order: `syncLimit` is before that.
///
/// NumPy Enhancement Proposal 1, "A Simple File Format for NumPy Arrays".
package final class ArrayFile {
  /// A page and a block of most file systems; a multiple of 64, as the format asks for.
  package static let headerByteCount = 4096
  /// How long the kernel may have a header that the disk has not: it writes by itself what is 30 s old
  /// (`vm.dirty_expire_centisecs`).
  package static let syncLimit = Duration.seconds(25)

  private static let claimByteCount = 128

  private static let endOfHeader = Array(",), }".utf8)

  package let path: String
  private let name: FileName
  /// Octets of the elements that the kernel has, claimed or not.
  package private(set) var byteCount = 0
  private let descriptor: FileDescriptor
  /// What of the header is ever written again. White space follows.
  private var header: [UInt8]
  /// Where the header's number of elements stands.
  private let countOffset: Int
  /// Octets of the elements that the disk has; none before it has the header.
  private var syncedByteCount = -1
  /// See `OutputFile`.
  private let isWatched: Bool

  /// Creates an empty array in a file of mode 0644 that is not there yet.
  ///
  /// - Parameters:
  ///   - name: of the file.
  ///   - folder: its own.
  ///   - path: what the file is called in messages.
  ///   - type: of the elements as NumPy names it, such as `<i8`; 16 characters at most.
  package init(
    creating name: String, in folder: OpenFolder, _ path: String, type: String
  ) throws(SystemError) {
    precondition(type.utf8.count <= 16, "the header has no room for it")
    (self.path, self.name) = (path, FileName(name))
    do throws(SystemError) { descriptor = try folder.create(name) } catch {
      throw SystemError(call: "open \(path)", number: error.number)
    }
    isWatched = folder.holds(self.name, descriptor)
    // The magic string, version 1.0, and the length of what follows in a little-endian number of two octets.
    header = [0x93] + Array("NUMPY".utf8) + [1, 0]
    header += [UInt8((Self.headerByteCount - 10) & 0xFF), UInt8((Self.headerByteCount - 10) >> 8)]
    header += "{'descr': '\(type)', 'fortran_order': False, 'shape': (".utf8
    countOffset = header.count
    header += [UInt8](repeating: UInt8(ascii: " "), count: Self.claimByteCount - header.count)
    setCount(0)
    let rest = [UInt8](repeating: UInt8(ascii: " "), count: Self.headerByteCount - header.count - 1)
    do throws(SystemError) {
      try descriptor.writeAll((header + rest + [UInt8(ascii: "\n")]).span)
      try descriptor.writeOut(.begun)
    } catch { throw named(error) }
  }

  /// Whether the kernel has octets that a power failure may take back.
  package var isUnsynced: Bool { syncedByteCount < byteCount }

  /// Hands elements to the kernel, unclaimed.
  ///
  /// - Throws: ENOSPC and its like; `byteCount` then tells how much was taken, maybe a part of an element.
  package func append(_ elements: Span<UInt8>) throws(SystemError) {
    var sent = 0
    // Behind a hole nothing is of use; `isGone` tells.
    if isCut { return }
    do throws(SystemError) {
      while sent < elements.count {
        let taken = try descriptor.write(elements.extracting(sent...))
        sent += taken
        byteCount += taken
      }
    } catch { throw named(error) }
  }

  /// Lets the header say that there are so many elements.
  ///
  /// `pwrite`, over octets that the file has.
  package func claim(_ count: Int) throws(SystemError) {
    setCount(count)
    do throws(SystemError) {
      let taken = try descriptor.write(header.span, at: 0)
      if taken < header.count { throw SystemError(call: "pwrite", number: EIO) }
    } catch { throw named(error) }
  }

  /// Takes away what follows so many octets of elements. Nothing may be appended any more.
  package func cut(to byteCount: Int) {
    // It is a courtesy: what is not claimed is not read.
    _ = ftruncate(descriptor.rawValue, off_t(Self.headerByteCount + byteCount))
    self.byteCount = byteCount
  }

  /// Has the disk get the elements, though neither the file's length nor the header.
  package func writeOut(_ extent: WritingOut) throws(SystemError) {
    guard isUnsynced else { return }
    do throws(SystemError) { try descriptor.writeOut(extent, from: Self.headerByteCount) } catch {
      throw named(error)
    }
  }

  /// Waits until the disk has what the kernel has.
  ///
  /// `fdatasync`. A file that is no disk's has nothing to wait for.
  package func sync() throws(SystemError) {
    guard isUnsynced else { return }
    let number = descriptor.rawValue
    do throws(SystemError) { try checked("fdatasync \(path)") { fdatasync(number) } } catch {
      guard error.number == EINVAL || error.number == EROFS else { throw error }
    }
    syncedByteCount = byteCount
  }

  /// Whether it was removed, replaced, moved out of its folder, or cut.
  package func isGone(from folder: OpenFolder) -> Bool {
    isWatched && (isCut || !folder.holds(name, descriptor))
  }

  /// Whether it is shorter than what the kernel took.
  package var isCut: Bool { isWatched && descriptor.isShorter(than: Self.headerByteCount + byteCount) }

  private func named(_ error: SystemError) -> SystemError {
    SystemError(call: "write \(path)", number: error.number)
  }

  /// Octet by octet: the writer's thread allocates nothing.
  private func setCount(_ count: Int) {
    var divisor = 1
    while count / divisor >= 10 { divisor *= 10 }
    var offset = countOffset
    while divisor > 0 {
      header[offset] = UInt8(ascii: "0") + UInt8(count / divisor % 10)
      divisor /= 10
      offset += 1
    }
    for place in Self.endOfHeader.indices {
      header[offset] = Self.endOfHeader[place]
      offset += 1
    }
    while offset < header.count {
      header[offset] = UInt8(ascii: " ")
      offset += 1
    }
  }
}
