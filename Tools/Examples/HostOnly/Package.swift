// swift-tools-version: 6.2
import PackageDescription

// A program that needs nothing but the radio: it builds where libedf, libzstd, zlib and libmosquitto are not installed.

let package = Package(
  name: "host-only",
  dependencies: [.package(name: "ringtap", path: "../../..")],
  targets: [
    .executableTarget(
      name: "HostOnly", dependencies: [.product(name: "BLEHost", package: "ringtap")], path: "Sources")
  ]
)
