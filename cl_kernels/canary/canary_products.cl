// Measures multiply-adds: 12 chains of `rounds` in each work-item, more than any pipeline is deep.
//
// Each chain is a = a * b + c, and comes to y = c / (1 - b) within an ulp where b is a power of two. Any grid.
#include "lanes.clh"

__kernel void canary_products(__global float* y, const float b, const float c, const int rounds) {
  const V vb = (V)(b), vc = (V)(c);
  V a0 = vc, a1 = a0 + 1.0f, a2 = a1 + 1.0f, a3 = a2 + 1.0f, a4 = a3 + 1.0f, a5 = a4 + 1.0f;
  V a6 = a5 + 1.0f, a7 = a6 + 1.0f, a8 = a7 + 1.0f, a9 = a8 + 1.0f, aa = a9 + 1.0f, ab = aa + 1.0f;
  for (int r = 0; r < rounds; r++) {
    a0 = a0 * vb + vc, a1 = a1 * vb + vc, a2 = a2 * vb + vc, a3 = a3 * vb + vc;
    a4 = a4 * vb + vc, a5 = a5 * vb + vc, a6 = a6 * vb + vc, a7 = a7 * vb + vc;
    a8 = a8 * vb + vc, a9 = a9 * vb + vc, aa = aa * vb + vc, ab = ab * vb + vc;
  }
  const V most = fmax(fmax(fmax(a0, a1), fmax(a2, a3)), fmax(fmax(a4, a5), fmax(a6, a7)));
  STORE(fmax(most, fmax(fmax(a8, a9), fmax(aa, ab))), get_global_id(0), y);
}
