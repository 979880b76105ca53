// First of three steps of a Winograd convolution F(4x4, 3x3) on GPUs: every 6x6 tile of the input, transformed.
//
//   v[position][tile][c] = 2^-24 (B^T d B)[position]     36 positions; winograd_passes.clh
//
// x [N, C, H, W] in byxf or b_fs_yx_fsv4, float; C is a multiple of 4. Tiles are counted through all images, row by row; each
// makes 4x4 pixels of the result. What lies outside of x is zero. A work-item transforms four channels of a tile; RANK = 5:
// n, rows of tiles, tiles of a row, block, channel. Grid: tiles * C / 4.
// table: dims, view of x on n, y, x, block, channel, height and width of x, pads before, floats of a position of v.
// Error: at most 6 2^-24 of |B^T| |d| |B|, scaled alike.
#define RANK 5
#include "vectors.clh"
#define WINOGRAD_V float4
#include "winograd_passes.clh"

__kernel void winograd_input_gpu_vectors(const int n, TENSOR(in0), TENSOR(v), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  __global const int* x = table + RANK;
  __global const int* rest = x + VIEW;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  const int top = 4 * at[1] - rest[2], left = 4 * at[2] - rest[3];
  __global const float* from = BASE_OF(const float, in0) + x[0] + at[0] * x[1] + top * x[2] + left * x[3] + at[3] * x[4];
  __global float* to = BASE_OF(float, v) + 4 * id;
  float4 t[6][6];
#pragma unroll
  for (int j = 0; j < 6; j++) {
    float4 d[6];
#pragma unroll
    for (int i = 0; i < 6; i++) {
      const int inside = (uint)(top + i) < (uint)rest[0] && (uint)(left + j) < (uint)rest[1];
      d[i] = inside ? LOAD4(from, i * x[2] + j * x[3]) : (float4)(0.0f);
    }
    WINOGRAD_B(WINOGRAD_SMALL, d[0], d[1], d[2], d[3], d[4], d[5], t[0][j], t[1][j], t[2][j], t[3][j], t[4][j], t[5][j])
  }
#pragma unroll
  for (int i = 0; i < 6; i++) {
    float4 r[6];
    WINOGRAD_B(1.0f, t[i][0], t[i][1], t[i][2], t[i][3], t[i][4], t[i][5], r[0], r[1], r[2], r[3], r[4], r[5])
#pragma unroll
    for (int j = 0; j < 6; j++) STORE4(to, (6 * i + j) * (long)rest[4], r[j]);
  }
}
