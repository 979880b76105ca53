// Weights of 3x3 convolutions transformed for Winograd's F(4x4, 3x3): u[position][o][c] = (G w[o][c] G^T)[position].
//
// w and u are float. A work-item transforms the filter of one output and one input channel. Grid: O * C.
// table: O, C, of w the element offset and the pitches of its four axes, of u the same of its three.
// Error: that of winograd_weights.clh.
#define RANK 4
#include "tensor.clh"
#include "winograd_weights.clh"

__kernel void winograd_weights_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  __global const int* w = table + 2;
  __global const int* u = w + VIEW;
  const int o = id / table[1], c = id % table[1];
  __global const float* from = BASE_OF(const float, in0) + w[0] + (long)o * w[1] + c * w[2];
  __global float* to = BASE_OF(float, out0) + u[0] + (long)o * u[2] + c * u[3];
  WIDE g[9], t[6][3];
  for (int k = 0; k < 9; k++) g[k] = from[k / 3 * w[3] + k % 3 * w[4]];
#define DOWN(i) t[i][k]
#pragma unroll
  for (int k = 0; k < 3; k++) WINOGRAD_G(WIDE, g[k], g[3 + k], g[6 + k], DOWN)
#define ALONG(i) to[(6 * r + i) * (long)u[1]]
#pragma unroll
  for (int r = 0; r < 6; r++) WINOGRAD_G(WIDE, t[r][0], t[r][1], t[r][2], ALONG)
}
