// Prints who advertises nearby, for ten seconds, with nothing but BLEHost.
import BLEHost

do {
  let adapter = KernelAdapter(try KernelAdapter.find(nil), on: try .start())
  _ = try await Scanner().run(on: adapter, for: .seconds(10)) { advertiser in
    print(advertiser.address, advertiser.name ?? "-")
    return .goOn
  }
  await adapter.close()
} catch { print(error) }
