mod apply;
