package import BLELinux
import Glibc

/// A one-dimensional NumPy array (`.npy`, format 1.0) that grows on disk and can be opened at any time.
///
/// The header occupies one page and contains the number of elements. Elements are appended first; a second
/// system call then updates ("claims") the number in the header. If the process is killed between the two,
/// the file is longer than stated in its header. `numpy.load` opens such a file, even with `mmap_mode`. It
/// refuses a shorter file, which cannot occur here because elements reach the kernel before their number. The
/// number is within one sector, which a disk writes atomically.
///
/// After a power failure, the disk must not contain the header without the elements and the file's length.
/// `writeOut` therefore writes only the elements to disk; the header is on another page. A `sync` of another
/// file then makes the file system commit the lengths of all files. The `sync` of this file, which writes the
/// header, comes last. The kernel writes pages on its own after 30 s, in any order; `syncLimit` is shorter
/// than 30 s.
///
/// NumPy Enhancement Proposal 1, "A Simple File Format for NumPy Arrays".
package final class ArrayFile {
  /// Size of the header, in bytes: one page, and one block of most file systems. The format requires a
  /// multiple of 64.
  package static let headerByteCount = 4096
  /// Maximum time for which a header may be in the kernel but not on disk. The kernel writes pages on its own
  /// after 30 s (`vm.dirty_expire_centisecs`).
  package static let syncLimit = Duration.seconds(25)

  private static let claimByteCount = 128

  private static let endOfHeader = Array(",), }".utf8)

  package let path: String
  private let name: FileName
  /// Number of bytes of elements written to the kernel, claimed or not.
  package private(set) var byteCount = 0
  private let descriptor: FileDescriptor
  /// Part of the header that is rewritten. White space follows it.
  private var header: [UInt8]
  /// Offset of the number of elements in the header.
  private let countOffset: Int
  /// Number of bytes of elements on disk; -1 until the header is on disk.
  private var syncedByteCount = -1
  /// Whether `isGone` and `isCut` check the file; see `OutputFile`.
  private let isWatched: Bool

  /// Creates an empty array in a new file with mode 0644.
  ///
  /// - Parameters:
  ///   - name: name of the file.
  ///   - folder: the folder that contains it.
  ///   - path: path of the file for messages.
  ///   - type: NumPy type of the elements, such as `<i8`; at most 16 characters.
  package init(
    creating name: String, in folder: OpenFolder, _ path: String, type: String
  ) throws(SystemError) {
    precondition(type.utf8.count <= 16, "the header has no room for it")
    (self.path, self.name) = (path, FileName(name))
    do throws(SystemError) { descriptor = try folder.create(name) } catch {
      throw SystemError(call: "open \(path)", number: error.number)
    }
    isWatched = folder.holds(self.name, descriptor)
    // Magic string, version 1.0, and length of the remaining header as a little-endian 16-bit number.
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

  /// Whether bytes written to the kernel could be lost in a power failure.
  package var isUnsynced: Bool { syncedByteCount < byteCount }

  /// Writes elements to the kernel without counting them in the header.
  ///
  /// - Throws: ENOSPC or similar. `byteCount` then includes the bytes that were written, which may end with
  ///   part of an element.
  package func append(_ elements: Span<UInt8>) throws(SystemError) {
    var sent = 0
    // Data after a hole is useless. `isGone` reports the truncation.
    if isCut { return }
    do throws(SystemError) {
      while sent < elements.count {
        let taken = try descriptor.write(elements.extracting(sent...))
        sent += taken
        byteCount += taken
      }
    } catch { throw named(error) }
  }

  /// Writes the number of elements to the header.
  ///
  /// Uses `pwrite` over existing bytes of the file.
  package func claim(_ count: Int) throws(SystemError) {
    setCount(count)
    do throws(SystemError) {
      let taken = try descriptor.write(header.span, at: 0)
      if taken < header.count { throw SystemError(call: "pwrite", number: EIO) }
    } catch { throw named(error) }
  }

  /// Truncates the elements to `byteCount` bytes. Nothing may be appended afterwards.
  package func cut(to byteCount: Int) {
    // Best effort: readers ignore unclaimed elements.
    _ = ftruncate(descriptor.rawValue, off_t(Self.headerByteCount + byteCount))
    self.byteCount = byteCount
  }

  /// Writes the elements to disk, but neither the file's length nor the header.
  package func writeOut(_ extent: WritingOut) throws(SystemError) {
    guard isUnsynced else { return }
    do throws(SystemError) { try descriptor.writeOut(extent, from: Self.headerByteCount) } catch {
      throw named(error)
    }
  }

  /// Waits until the written data is on disk.
  ///
  /// Uses `fdatasync`. Returns at once for a device or pipe.
  package func sync() throws(SystemError) {
    guard isUnsynced else { return }
    let number = descriptor.rawValue
    do throws(SystemError) { try checked("fdatasync \(path)") { fdatasync(number) } } catch {
      guard error.number == EINVAL || error.number == EROFS else { throw error }
    }
    syncedByteCount = byteCount
  }

  /// Returns whether the file was removed, replaced, moved out of its folder, or truncated.
  package func isGone(from folder: OpenFolder) -> Bool {
    isWatched && (isCut || !folder.holds(name, descriptor))
  }

  /// Whether the file is shorter than the written data.
  package var isCut: Bool { isWatched && descriptor.isShorter(than: Self.headerByteCount + byteCount) }

  private func named(_ error: SystemError) -> SystemError {
    SystemError(call: "write \(path)", number: error.number)
  }

  /// Writes the number to the header byte by byte, because the writer's thread must not allocate.
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
