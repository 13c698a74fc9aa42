def embedding(table, index):
    return table[index]
