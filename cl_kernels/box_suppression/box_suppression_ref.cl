// Boxes kept, best first, that none of those kept before overlaps: for each image and class a line of their places, -1 behind
// the last. A box counts whose score is above `least`; two overlap whose shared area is more than `overlap` of the union's.
//
// boxes [N][B][4] (two opposite corners, or centre and sides where CENTERED), scores [N][C][B], limit (long), overlap and
// least: one element each; places [N][C][K] (int).
// Grid: one work-item an image and class, n = N * C of them. RANK = 3. table: views of boxes, scores and places, origins of
// limit, overlap and least, C, B, K.
// scratch0: for each work-item a heap of B keys, then the corners and areas of those kept, a row of ROOM(K) floats each.
// Exact: compared are the floats that the reference compares, hence no contraction.
#define RANK 3
#include "tensor.clh"
#define NOINLINE __attribute__((noinline))
#include "boxes.clh"

__kernel void box_suppression_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(in4), TENSOR(out0),
                                  TENSOR(scratch0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int classes = table[15], count = table[16], most = table[17];
  const int at[RANK] = {id / classes, id % classes, 0};
  const int boxes_at[RANK] = {at[0], 0, 0};
  __global const float* boxes = BASE_OF(const float, in0) + element(table, boxes_at);
  __global const float* scores = BASE_OF(const float, in1) + element(table + VIEW, at);
  __global int* places = BASE_OF(int, out0) + element(table + 2 * VIEW, at);
  const long limit = BASE_OF(const long, in2)[table[12]];
  const float overlap = BASE_OF(const float, in3)[table[13]], least = BASE_OF(const float, in4)[table[14]];
  const long bytes = 8l * count + 20l * ROOM(most);
  __global ulong* heap = BASE_OF(ulong, scratch0) + id * (bytes / 8);
  suppress_boxes(boxes, table[2], table[3], table[18], scores, table[7], least, overlap, limit, count, most, places, table[11], heap,
                 (__global float*)(heap + count));
}
