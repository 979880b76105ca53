// Convolution with groups, bias and post-operations for GPUs, channels in vectors: an implicit matrix product.
//
// x [N, C, H, W] and y [N, O, H, W] in byxf or b_fs_yx_fsv4, w [kh][kw][C / groups][O], bias [O] or
// none, float or half. The rows of the product are the pixels of all images, its columns the outputs of a group, its k
// the taps times the channels. C and O of a group are multiples of 4. RANK = 5: n, y, x, block, channel.
// Grid: (tiles of outputs * 16, tiles of pixels * 16, groups), groups of 16 x 16; a group makes 64 ROWS pixels of
// 64 COLUMNS outputs, 16 k at a time (ROWS, COLUMNS: 1 or 2, default 1).
// table: views of y and x, channels and outputs of a group, taps, images, height and width of y, height and width of x,
// strides, pads before, bias offset (-1: none) and pitch; taps: offset in x and place along y and x of each.
// Error: k * 2^-24 * sum |x w|, accumulated in float in the order of k, plus the post-operations'.
#define RANK 5
#include "vectors.clh"
#include "pixel_window.clh"
#include "gemm_tile.clh"

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void convolution_gpu_vectors(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table, __global const int* taps,
    POST_PARAMETERS) {
  __local float4 rows[STEP * ROWS_PITCH];
  __local float4 columns[STEP * COLUMNS_PITCH];
  __global const int* y = table;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  const int blocks = rest[0] / 4, outputs = rest[1], images = rest[3], height = rest[4], width = rest[5];
  const int units = rest[2] * blocks, pixels = images * height * width;
  const int tx = get_local_id(0), ty = get_local_id(1), local_id = ty * 16 + tx, group = get_global_id(2);
  const int o0 = get_group_id(0) * GEMM_COLUMNS, p0 = get_group_id(1) * GEMM_ROWS;
  __global const T* source = BASE_OF(const T, in0) + x[0] + group * blocks * x[4];
  __global const T* weights = BASE_OF(const T, in1) + group * outputs + o0;
  const int all = outputs * (int)get_global_size(2);

  // The pixels that this work-item loads: where their windows start.
  int top[ROWS], left[ROWS], base[ROWS];
  for (int r = 0; r < ROWS; r++) pixel_window(p0 + local_id / 4 + 64 * r, pixels, x, rest, top + r, left + r, base + r);
  // Tap and block of channels of the vector of k that it loads next.
  int tap = local_id % 4 / blocks, block = local_id % 4 % blocks;
  const int more_taps = 4 / blocks, more_blocks = 4 % blocks;

  float4 sums[4 * ROWS][COLUMNS];
  gemm_clear(sums);
  for (int unit = 0; unit < units; unit += 4) {
    const int there = unit + local_id % 4 < units;
    __global const int* t = taps + 3 * min(tap, rest[2] - 1);
    for (int r = 0; r < ROWS; r++) {
      const int inside = there && (uint)(top[r] + t[1]) < (uint)rest[6] && (uint)(left[r] + t[2]) < (uint)rest[7];
      const float4 v = inside ? LOAD4(source, base[r] + t[0] + block * x[4]) : (float4)(0.0f);
      gemm_turn(rows + local_id % 4 * 4 * ROWS_PITCH, local_id / 4 + 64 * r, GEMM_ROWS, v);
    }
    for (int c = 0; c < COLUMNS; c++) {
      const int k = 4 * unit + local_id / 16, o = local_id % 16 * 4 + 64 * c;
      columns[local_id / 16 * COLUMNS_PITCH + local_id % 16 + 16 * c] =
          k < 4 * units && o0 + o < outputs ? LOAD4(weights, k * all + o) : (float4)(0.0f);
    }
    tap += more_taps;
    block += more_blocks;
    if (block >= blocks) {
      block -= blocks;
      tap++;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    gemm_multiply(sums, rows, columns, ty, tx);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  int at[RANK];
  at[4] = 0;
  for (int i = 0; i < GEMM_SUMS; i++, gemm_move_up(sums)) {
    const int r = i / COLUMNS, p = p0 + 4 * ty + r % 4 + r / 4 * 64;
    const int o = o0 + 4 * tx + i % COLUMNS * 64, channel = group * outputs + o;
    if (p >= pixels || o >= outputs) continue;
    float4 sum = sums[0][0];
    if (rest[12] >= 0) sum += vector_operand(BASE_OF(const T, in2), rest[12] + channel * rest[13], rest[13]);
    at[0] = p / (height * width);
    at[1] = p / width % height;
    at[2] = p % width;
    at[3] = channel / 4;
    STORE4(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
  }
}
