// Lists nearby advertisers for ten seconds, with BLEHost alone.
import BLEHost

do {
  let adapter = KernelAdapter(try KernelAdapter.find(nil), on: try .start())
  _ = try await Scanner().run(on: adapter, for: .seconds(10)) { advertiser in
    print(advertiser.address, advertiser.name ?? "-")
    return .goOn
  }
  await adapter.close()
} catch { print(error) }
