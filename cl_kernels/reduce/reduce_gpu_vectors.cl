// Sum, mean, maximum or minimum over the pixels of each channel, with post-operations, for GPUs: channels in vectors.
//
// x [N, C, H, W] in byxf or b_fs_yx_fsv4, y [N, C] or [N, C, 1, 1] with its channels behind one another, float or half; C
// is a multiple of LANES, which is 4, or 8 of halves in byxf. Grid: (vectors of channels / 16 rounded up * 64, N), groups of
// 64: 16 vectors by 4 ranges of pixels of each, which are added up in local memory. RANK = 3: n, block, channel. table: views
// of y (3 axes) and of x (n, y, x, block, channel), blocks, height, width, function: 0 sum, 1 mean, 2 max, 3 min.
// Error: (pixels / 4 + 4) * 2^-24 * sum |x|, one rounding more for the mean; extrema are exact, and NaN where there is one.
#define RANK 3
#include "vectors.clh"

static VECTOR reduce_larger(const VECTOR a, const VECTOR b) { return a > b || a != a ? a : b; }

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void reduce_gpu_vectors(
    TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  __local VECTOR part[4][16];
  __global const int* y = table;
  __global const int* x = y + VIEW;
  __global const int* rest = x + 6;
  const int vector = get_local_id(0) % 16, range = get_local_id(0) / 16;
  const int block = get_group_id(0) * 16 + vector, pixels = rest[1] * rest[2], function = rest[3];
  const float sign = function == 3 ? -1.0f : 1.0f;
  const int there = block < rest[0];
  __global const T* source = BASE_OF(const T, in0) + x[0] + get_group_id(1) * x[1] + (there ? block : 0) * x[4];
  VECTOR sum = (VECTOR)(0.0f), most = (VECTOR)(-INFINITY);
  for (int p = range; p < pixels; p += 4) {
    const VECTOR v = LOADV(source, p / rest[2] * x[2] + p % rest[2] * x[3]);
    sum += v;
    most = reduce_larger(sign * v, most);
  }
  part[range][vector] = function < 2 ? sum : most;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (range || !there) return;
  VECTOR r = part[0][vector];
  for (int i = 1; i < 4; i++) r = function < 2 ? r + part[i][vector] : reduce_larger(part[i][vector], r);
  r = function == 1 ? r / (float)pixels : function == 3 ? -r : r;
  const int at[RANK] = {get_group_id(1), block, 0};
  STOREV(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
