// Last of three steps of a Winograd convolution F(4x4, 3x3) on GPUs: the products, transformed back, with bias and
// post-operations.
//
//   y[4x4 pixels of the tile] = 2^24 A^T m A + bias,   m = m[position][tile][o] of 36 positions; winograd_passes.clh
//
// y [N, O, H, W] in byxf or b_fs_yx_fsv4, bias [O] or none, float; O is a multiple of 4. A work-item makes four outputs of a
// tile, of which pixels beyond y are left out; RANK = 5: n, rows of tiles, tiles of a row (of y: n, y, x), block, channel.
// Grid: tiles * O / 4.
// table: dims, view of y, height and width of y, floats of a position of m, bias offset (-1: none) and pitch.
// Error of the three steps: (n + 15) 2^-24 sum over c of |A^T| [ (|G| |g| |G^T|) . (|B^T| |d| |B|) ] |A| for n channels: one
// rounding of the weights (10 where the device has no double), 6 of the input, n of the products, 8 of the way back; then
// that of the bias and the post-operations'. The sum is at most 27.5^2 max|g| max|d| a channel. A value that is not finite
// reaches all 16 pixels of each tile that reads it.
#define RANK 5
#include "vectors.clh"
#define WINOGRAD_V float4
#include "winograd_passes.clh"

__kernel void winograd_output_gpu_vectors(const int n, TENSOR(m), TENSOR(in2), TENSOR(out0), __global const int* table,
                                          POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  __global const int* y = table + RANK;
  __global const int* rest = y + VIEW;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  const int y0 = 4 * at[1], x0 = 4 * at[2], rows = min(4, rest[0] - y0), columns = min(4, rest[1] - x0);
  __global const float* from = BASE_OF(const float, m) + 4 * id;
  const long position = rest[2];
  float4 t[4][6];
#pragma unroll
  for (int j = 0; j < 6; j++) {
    float4 s[6];
#pragma unroll
    for (int i = 0; i < 6; i++) s[i] = LOAD4(from, (6 * i + j) * position);
    WINOGRAD_A(s[0], s[1], s[2], s[3], s[4], s[5], t[0][j], t[1][j], t[2][j], t[3][j])
  }
  float4 bias = (float4)(0.0f);
  if (rest[3] >= 0) bias = vector_operand(BASE_OF(const T, in2), rest[3] + 4 * at[3] * rest[4], rest[4]);
  // Rows and pixels move up instead of being counted: what is indexed by a variable would leave the registers.
#pragma unroll 1
  for (int i = 0; i < rows; i++) {
    float4 r[4];
    WINOGRAD_A(t[0][0], t[0][1], t[0][2], t[0][3], t[0][4], t[0][5], r[0], r[1], r[2], r[3])
    at[1] = y0 + i;
#pragma unroll 1
    for (int j = 0; j < columns; j++) {
      at[2] = x0 + j;
      const float4 sum = fma(r[0], (float4)(WINOGRAD_LARGE), bias);
      STORE4(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
      r[0] = r[1], r[1] = r[2], r[2] = r[3];
    }
#pragma unroll
    for (int j = 0; j < 6; j++) t[0][j] = t[1][j], t[1][j] = t[2][j], t[2][j] = t[3][j];
  }
}
