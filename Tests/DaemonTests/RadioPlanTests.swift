import Testing

@testable import Daemon

/// How devices are spread over radios.
@Suite struct RadioPlanTests {
  private func standing(_ place: Int, _ links: Int, limit: Int? = nil, load: Double = 0) -> RadioPlan.Standing
  {
    RadioPlan.Standing(place: place, links: links, limit: limit, load: load)
  }

  @Test func spreadsByLinksThenByLoad() {
    var links = [0, 0, 0]
    for _ in 0..<12 {
      let radio = RadioPlan.radio(
        for: nil, avoiding: nil, among: links.enumerated().map { standing($0, $1) })
      links[radio ?? 0] += 1
    }
    #expect(links == [4, 4, 4])
    #expect(
      RadioPlan.radio(for: nil, avoiding: nil, among: [standing(0, 3, load: 75), standing(1, 3, load: 3)])
        == 1)
    #expect(
      RadioPlan.radio(for: nil, avoiding: nil, among: [standing(0, 2, load: 75), standing(1, 3, load: 3)])
        == 0)
  }

  @Test func heedsTiesAndLimits() {
    let radios = [standing(0, 0), standing(1, 9), standing(2, 1, limit: 1)]
    #expect(RadioPlan.radio(for: 1, avoiding: nil, among: radios) == 1)
    #expect(RadioPlan.radio(for: 2, avoiding: nil, among: radios) == nil)
    #expect(RadioPlan.radio(for: 3, avoiding: nil, among: radios) == nil)
    #expect(RadioPlan.radio(for: nil, avoiding: nil, among: [radios[2]]) == nil)
    #expect(RadioPlan.radio(for: nil, avoiding: nil, among: []) == nil)
  }

  /// A radio that did not reach the device is tried again only if there is no other.
  @Test func triesAnotherRadio() {
    let radios = [standing(0, 0), standing(1, 5)]
    #expect(RadioPlan.radio(for: nil, avoiding: 0, among: radios) == 1)
    #expect(RadioPlan.radio(for: nil, avoiding: 0, among: [radios[0]]) == 0)
    #expect(RadioPlan.radio(for: 0, avoiding: 0, among: radios) == 0)
  }
}
